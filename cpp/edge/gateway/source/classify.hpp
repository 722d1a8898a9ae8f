// Classifies measurements: one after the other, or as coroutines that prefetch a row and yield
// until it has arrived (thesis, section 5.3.3).
#pragma once

#include "table.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gateway {

// A spectrum at any address, and its sensor's index in the table.
struct measurement {
  const int16_t* bins;
  size_t machine;
};

enum class model : uint8_t {
  sequential,
  coroutine,
};

// Returns the model of the name `sequential` or `coroutine`. Throws std::runtime_error.
model model_of_name(std::string_view name);
std::string_view name_of(model of);

// Sets decided[i] to 1 if measurement i is that of a damaged bearing, else to 0. Both models give
// the same. `decided` has as many elements as `measurements`. The coroutine model prefetches the
// next sensor's weights and interleaves scattered rows, which allocates once for 2048 rows. It
// leaves rows in order and up to 1023 short ones to a loop.
void classify(model by, const sensor_table& table, std::span<const measurement> measurements,
              uint8_t* decided);

}  // namespace gateway
