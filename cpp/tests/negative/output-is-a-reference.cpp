// both: a coroutine returns a value; return a pointer instead of a reference
#include <corank/task.hpp>

corank::slot<64 * sizeof(void*)> lookup_slot;
int table[4];

#ifdef MUST_NOT_COMPILE
corank::task<int&> lookup(corank::in<lookup_slot>, int at) { co_return table[at]; }
#else
corank::task<int*> lookup(corank::in<lookup_slot>, int at) { co_return &table[at]; }
#endif

int main() { spawn(corank::priority::standard, lookup({}, 1))->detach(); }
