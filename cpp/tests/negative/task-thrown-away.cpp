// both: a coroutine does nothing unless it is awaited or spawned
#include <corank/task.hpp>

corank::slot<64 * sizeof(void*)> inner_slot, outer_slot;
corank::task<> inner(corank::in<inner_slot>) { co_await corank::yield_now{}; }
corank::task<> outer(corank::in<outer_slot>) {
#ifdef MUST_NOT_COMPILE
  inner({});
#else
  co_await inner({});
#endif
  co_return;
}

int main() { spawn(corank::priority::standard, outer({}))->detach(); }
