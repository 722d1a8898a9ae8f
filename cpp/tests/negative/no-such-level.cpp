// both: a_priority_is_a_level_from_0_to_63
#include <corank/priority.hpp>

#ifdef MUST_NOT_COMPILE
constexpr corank::priority level{64};
#else
constexpr corank::priority level{63};
#endif

int main() { return level.level() != 63; }
