// both: a channel has room for at least one message
#include <corank/corank.hpp>

#ifdef MUST_NOT_COMPILE
corank::channel<int, 0> numbers;
#else
corank::channel<int, 1> numbers;
#endif

int main() { return numbers.try_send(1) ? 0 : 1; }
