// Tasks that yield to each other, through the scheduler.
#include <corank/task.hpp>

#include "counter.hpp"

namespace {

corank::pool<40, bench::most_tasks> frames;

corank::task<> yields(corank::in<frames>, uint32_t rounds) {
  for (; rounds != 0; --rounds) co_await corank::yield_now{};
}

void measure(uint32_t tasks, uint32_t levels, uint32_t first_level) {
  for (uint32_t each = 0; each < tasks; ++each) {
    auto handle =
        spawn(*corank::priority::from(first_level + each % levels), yields({}, bench::rounds));
    if (!handle) return semihosting::exit(false);
    handle->detach();
  }
  bench::row("corank", tasks, levels, first_level,
             bench::count([] { corank::executor.run_until_idle(); }));
  if (corank::executor.live() != 0 || frames.free() != bench::most_tasks) semihosting::exit(false);
}

}  // namespace

int main() {
  static constexpr uint32_t tasks[] = {2, 8, 64}, levels[] = {1, 2, 4, 8};
  for (uint32_t n : tasks)
    for (uint32_t l : levels)
      if (l <= n) measure(n, l, 0);
  // The less urgent half of the levels is in the bitmap's second word.
  for (uint32_t n : tasks) measure(n, 1, 32);
  semihosting::exit(true);
}
