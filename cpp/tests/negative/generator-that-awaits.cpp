// both: a generator can't await; make it a task with a channel
#include <corank/corank.hpp>

corank::slot<64 * sizeof(void*)> numbers_slot;
corank::generator<int> numbers(corank::in<numbers_slot>) {
  co_yield 1;
#ifdef MUST_NOT_COMPILE
  co_await corank::yield_now{};
#endif
}

int main() {
  for (int each : numbers({})) (void)each;
}
