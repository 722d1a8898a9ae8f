// both: future_like
#include <corank/corank.hpp>

corank::event button;
int number = 0;
corank::slot<96 * sizeof(void*)> waits_slot;
corank::task<> waits(corank::in<waits_slot>) {
  auto rung = button.wait();
#ifdef MUST_NOT_COMPILE
  (void)co_await corank::any(rung, number);
#else
  (void)co_await corank::any(rung);
#endif
}

int main() { spawn(corank::priority::standard, waits({}))->detach(); }
