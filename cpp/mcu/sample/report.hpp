// The common part of all three versions of the sample application: the measured values, and the
// line that is sent.
#pragma once

#include <stdint.h>

#include "board/semihosting.hpp"

namespace sample {

// The magnetometer of the same chip (LSM303DLHC), which QEMU emulates, replaces the accelerometer:
// same bus, same kind of registers.
inline constexpr uint8_t accelerometer = 0x1E, first_register = 0x03, axes_bytes = 6;
inline constexpr uint32_t channel_x = 0, channel_y = 1, period = 20000, reports = 5;

struct measurement {
  uint16_t x = 0, y = 0;
  uint8_t axes[axes_bytes] = {};
};

// Writes `x=513 y=516 a=0000,0000,0000` and a line's end.
inline void format(const measurement& m, char* text) {
  const auto number = [&text](unsigned value) {
    for (unsigned divisor = 1000; divisor > 0; divisor /= 10)
      *text++ = static_cast<char>('0' + value / divisor % 10);
  };
  const auto word = [&text](const char* name) {
    while (*name != 0) *text++ = *name++;
  };
  word("x=");
  number(m.x);
  word(" y=");
  number(m.y);
  word(" a=");
  for (int axis = 0; axis < 3; ++axis) {
    if (axis > 0) *text++ = ',';
    for (int nibble = 3; nibble >= 0; --nibble)
      *text++ =
          "0123456789abcdef"[(m.axes[2 * axis] << 8 | m.axes[2 * axis + 1]) >> (4 * nibble) & 15];
  }
  word("\n");
  *text = 0;
}
inline constexpr unsigned line_bytes = 40;

}  // namespace sample
