// Counts allocations, and lets one fail.
#pragma once

#include <cstddef>

namespace test {

// The allocations since the program began, and those that have not been freed.
inline size_t allocations = 0;
inline size_t allocated = 0;
// The number of allocations that succeed before one fails; never, if negative.
inline long succeeding = -1;

}  // namespace test
