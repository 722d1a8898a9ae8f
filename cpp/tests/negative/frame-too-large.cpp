// gcc: inlined from 'corank::task<void> app::blink(
// gcc: the frame of this coroutine does not fit into its slot
// clang: app::blink(
// clang: undefined reference to `void corank::detail::frame_does_not_fit_into_its_slot<
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
