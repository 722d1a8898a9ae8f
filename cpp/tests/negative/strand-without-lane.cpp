// both: a strand's first parameter says where its frame lives: corank::lane&
#include <corank/interleave.hpp>

#ifdef MUST_NOT_COMPILE
corank::strand<int> find(int key) { co_return key; }
#else
corank::strand<int> find(corank::lane&, int key) { co_return key; }
#endif

int main() {}
