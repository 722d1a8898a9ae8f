// Coroutines that are resumed one after the other, without a scheduler: what the language alone costs.
#include <stddef.h>

#include <corank/coroutine.hpp>

#include "counter.hpp"

namespace {

alignas(8) unsigned char frames[bench::most_tasks][48];
uint32_t used;

struct resumable {
  struct promise_type {
    resumable get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
    static void* operator new(size_t) noexcept { return frames[used++]; }
    static void operator delete(void*, size_t) {}
    static resumable get_return_object_on_allocation_failure() { return {}; }
  };
  std::coroutine_handle<> handle;
};

resumable yields(uint32_t rounds) {
  for (; rounds != 0; --rounds) co_await std::suspend_always{};
}

std::coroutine_handle<> handles[bench::most_tasks];

void measure(uint32_t tasks) {
  used = 0;
  for (uint32_t each = 0; each < tasks; ++each) {
    handles[each] = yields(bench::rounds).handle;
    handles[each].resume();
  }
  bench::row("direct-resume", tasks, 1, 0, bench::count([tasks] {
               for (uint32_t round = 0; round < bench::rounds; ++round)
                 for (uint32_t each = 0; each < tasks; ++each) handles[each].resume();
             }));
  for (uint32_t each = 0; each < tasks; ++each)
    if (!handles[each].done()) semihosting::exit(false);
}

}  // namespace

int main() {
  static constexpr uint32_t tasks[] = {2, 8, 64};
  for (uint32_t n : tasks) measure(n);
  semihosting::exit(true);
}
