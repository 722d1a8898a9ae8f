// opt: -O0 -Os -O2
// gcc -O0: the frame of `blink` takes
// gcc -Os: inlined from 'corank::task<void> app::blink(
// gcc -Os: the frame of this coroutine does not fit into its slot
// gcc -Os: bytes into a region of size 16
// gcc -O2: bytes into a region of size 16
// gcc -O2: inlined from 'corank::task<void> app::blink(
// gcc -O2: the frame of this coroutine does not fit into its slot
// clang: in function `app::blink(
// clang: undefined reference to `corank_frame_does_not_fit_into_its_slot
#include <corank/task.hpp>

namespace app {
#ifdef MUST_NOT_COMPILE
corank::slot<sizeof(void*)> blink_slot;
#else
corank::slot<64 * sizeof(void*)> blink_slot;
#endif

corank::task<> blink(corank::in<blink_slot>) {
  for (;;) co_await corank::yield_now{};
}
}  // namespace app

int main() {
  spawn(corank::priority::standard, app::blink({}))->detach();
  corank::executor.run_until_idle();
}
