// both: [-Werror
// both: spawn
#include <corank/task.hpp>

corank::slot<64 * sizeof(void*)> blink_slot;
corank::task<> blink(corank::in<blink_slot>) { co_await corank::yield_now{}; }

int main() {
#ifdef MUST_NOT_COMPILE
  spawn(corank::priority::standard, blink({}));
#else
  spawn(corank::priority::standard, blink({}))->detach();
#endif
}
