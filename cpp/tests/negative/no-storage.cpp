// both: a coroutine's first parameter says where its frame lives: corank::in<a_slot>,
#include <corank/task.hpp>

corank::slot<64 * sizeof(void*)> blink_slot;

#ifdef MUST_NOT_COMPILE
corank::task<> blink(int) { co_await corank::yield_now{}; }
#else
corank::task<> blink(corank::in<blink_slot>, int) { co_await corank::yield_now{}; }
#endif

int main() {}
