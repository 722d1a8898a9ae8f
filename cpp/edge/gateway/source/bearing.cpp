#include "bearing.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace gateway {
namespace {

using std::numbers::pi;

double between(std::mt19937_64& chance, double low, double high) {
  return std::uniform_real_distribution(low, high)(chance);
}

// A free vibration, one sample after the other. It is the real part of a number that is multiplied
// by another number at each step.
struct vibration {
  double real = 0, imaginary = 0, cosine, sine;

  vibration(double frequency, double factor)
      : cosine(factor * std::cos(2 * pi * frequency / samples_per_second)),
        sine(factor * std::sin(2 * pi * frequency / samples_per_second)) {}
  double next() {
    const double now = real;
    real = now * cosine - imaginary * sine;
    imaginary = now * sine + imaginary * cosine;
    return now;
  }
};

}  // namespace

damage damage_of_name(std::string_view name) {
  if (name == "sound") return damage::none;
  if (name == "outer") return damage::outer_race;
  if (name == "inner") return damage::inner_race;
  throw std::runtime_error(
      "a bearing is `sound`, or has a fault in its `outer` or `inner` race, not `" +
      std::string(name) + "`");
}

bearing::bearing(uint32_t number, uint64_t seed) : chance_(seed ^ uint64_t{number} << 32) {
  std::mt19937_64 geometry(number);
  speed_ = between(geometry, 25, 50);
  elements_ = std::floor(between(geometry, 7, 13));
  ratio_ = between(geometry, 0.18, 0.32);
  resonance_ = between(geometry, 2200, 4800);
  decay_ = between(geometry, 600, 1200);
  noise_ = between(geometry, 0.02, 0.05);
}

double bearing::hits(damage of) const {
  if (of == damage::none) return 0;
  return elements_ / 2 * speed_ * (of == damage::outer_race ? 1 - ratio_ : 1 + ratio_);
}

void bearing::measure(damage of, std::span<float> out) {
  const double slower = between(chance_, 0.95, 1.05);
  const double shaft = speed_ * slower, rate = hits(of) * slower;
  // The strength of the fault, from hardly measurable to obvious.
  const double strength = std::exp(between(chance_, std::log(0.15), std::log(1)));
  std::normal_distribution<double> noise(0, noise_ * between(chance_, 0.8, 1.25)), slip(0, 0.02),
      tone(0, 0.03);

  vibration imbalance(shaft, 1), misalignment(2 * shaft, 1),
      ringing(resonance_ * (1 + tone(chance_)), std::exp(-decay_ / samples_per_second));
  imbalance.real = between(chance_, 0.05, 0.2);
  misalignment.imaginary = between(chance_, 0.01, 0.08);
  const double turned = between(chance_, 0, 1);
  // The number of hits by now, with a fraction. The next hit comes when this reaches the next whole
  // number, more or less.
  double passed = between(chance_, 0, 1), next_hit = 1;

  for (size_t at = 0; at < out.size(); ++at) {
    passed += rate / samples_per_second;
    if (rate > 0 && passed >= next_hit) {
      const double angle = 2 * pi * (turned + shaft * static_cast<double>(at) / samples_per_second);
      ringing.imaginary +=
          strength * (of == damage::inner_race ? std::max(0.1, 0.5 + 0.5 * std::cos(angle)) : 1);
      next_hit += 1 + slip(chance_);
    }
    const double acceleration =
        imbalance.next() + misalignment.next() + ringing.next() + noise(chance_);
    constexpr double steps = 2048 / 2.0;
    out[at] =
        static_cast<float>(std::clamp(std::round(acceleration * steps), -2048.0, 2047.0) / steps);
  }
}

}  // namespace gateway
