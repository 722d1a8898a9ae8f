// Coroutines that are resumed one after the other, without a scheduler: the cost of the language
// alone.
#include "counter.hpp"
#include "resumable.hpp"

namespace {

using task = resumable<48, bench::most_tasks>;

task yields(uint32_t rounds) {
  for (; rounds != 0; --rounds) co_await std::suspend_always{};
}

std::coroutine_handle<> handles[bench::most_tasks];

void measure(uint32_t tasks) {
  task::used = 0;
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
