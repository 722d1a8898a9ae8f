// Counts what is allocated, and lets one allocation fail.
#pragma once

#include <cstddef>

namespace test {

// Allocations since the program began, and those that have not been given back.
inline size_t allocations = 0;
inline size_t allocated = 0;
// How many more allocations succeed before one fails; never, if negative.
inline long succeeding = -1;

}  // namespace test
