// Simulates a rolling bearing for an accelerometer on its housing: sound, or with a fault in one of
// its races.
//
// A rolling element that passes a fault hits it, and the hit makes the housing vibrate. The
// frequency of the hits follows from the geometry (the thesis's application, section 5.3.1). The
// formulas are those of any textbook on vibration:
//
//   outer race (BPFO): n/2 · f · (1 − d/D)
//   inner race (BPFI): n/2 · f · (1 + d/D), louder once a turn, in the zone of the load
//
// with n elements of diameter d on a circle of diameter D, and a shaft that turns f times a second.
// The elements slip, so the hits are not quite regular. The shaft's speed varies from measurement
// to measurement. The shaft's own imbalance and noise are always there.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string_view>

namespace gateway {

enum class damage : uint8_t { none, outer_race, inner_race };

// Returns the damage of the name `sound`, `outer` or `inner`. Throws std::runtime_error.
damage damage_of_name(std::string_view name);

inline constexpr double samples_per_second = 12800;

// One machine, which its number defines.
class bearing {
 public:
  // Makes a bearing. `number` chooses the geometry, and `seed` the random values. The same two
  // numbers make the same signal.
  bearing(uint32_t number, uint64_t seed);

  // Returns the hits a second, at the usual speed.
  [[nodiscard]] double hits(damage of) const;

  // Writes the acceleration in g over the next `out.size()` samples, as a 12-bit sensor of ±2 g
  // gives it.
  void measure(damage of, std::span<float> out);

 private:
  double speed_, elements_, ratio_, resonance_, decay_, noise_;
  std::mt19937_64 chance_;
};

}  // namespace gateway
