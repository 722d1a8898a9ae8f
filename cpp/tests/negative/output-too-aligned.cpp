// both: static assertion failed
// both: an output needs no larger alignment than two pointers
#include <corank/corank.hpp>

#ifdef MUST_NOT_COMPILE
struct alignas(64) wide {
  int x;
};
#else
struct wide {
  int x;
};
#endif
corank::slot<96 * sizeof(void*)> makes_slot;
corank::task<wide> makes(corank::in<makes_slot>) { co_return wide{1}; }

int main() { spawn(corank::priority::standard, makes({}))->detach(); }
