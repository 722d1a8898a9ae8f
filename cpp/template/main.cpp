#include <corank/corank.hpp>
#include <corank/exact.hpp>

#include "board/semihosting.hpp"
#include "board/systick.hpp"

namespace {

corank::slot<corank::exact("blink")> blink_slot;
corank::slot<corank::exact("watch")> watch_slot;
corank::semaphore ticks{0};
corank::event warm;

corank::task<> watch(corank::in<watch_slot>) {
  co_await warm;
  semihosting::print("warm\n");
  semihosting::exit(true);
}

corank::task<> blink(corank::in<blink_slot>) {
  for (int each = 0; each < 3; ++each) {
    (co_await ticks.acquire()).forget();
    semihosting::print("blink\n");
  }
  warm.set();
}

}  // namespace

extern "C" void systick_handler() { ticks.release(); }

int main() {
  systick::fire_after(1'000'000, 1'000'000);
  spawn(corank::priority{40}, blink({}))->detach();
  spawn(corank::priority{10}, watch({}))->detach();
  corank::executor.run();
}
