#include "spectrum.hpp"

#include <kissfft/kiss_fftr.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <numbers>

namespace gateway {

int16_t bin_of_amplitude(double amplitude) {
  const double value = std::round(std::log10(std::max(amplitude, 1e-4)) * (1 << fraction_bits));
  return static_cast<int16_t>(std::clamp(value, -32768.0, 32767.0));
}

spectrum::spectrum(size_t features)
    : plan_(kiss_fftr_alloc(static_cast<int>(2 * features), 0, nullptr, nullptr)),
      window_(2 * features),
      windowed_(2 * features),
      amplitudes_(features + 1) {
  if (plan_ == nullptr) throw std::bad_alloc();
  // Hann's window; its mean is 1/2.
  for (size_t at = 0; at < window_.size(); ++at)
    window_[at] =
        static_cast<float>(0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(at) /
                                                static_cast<double>(window_.size())));
}

spectrum::~spectrum() { kiss_fftr_free(plan_); }

void spectrum::transform(std::span<const float> acceleration, std::span<int16_t> bins) {
  static_assert(sizeof(amplitude) == sizeof(kiss_fft_cpx));
  std::transform(acceleration.begin(), acceleration.end(), window_.begin(), windowed_.begin(),
                 std::multiplies<>());
  kiss_fftr(plan_, windowed_.data(), reinterpret_cast<kiss_fft_cpx*>(amplitudes_.data()));
  // A vibration of amplitude a has a · (samples / 2) · (the window's mean) in its bin.
  const double scale = 4 / static_cast<double>(window_.size());
  for (size_t at = 0; at < bins.size(); ++at)
    bins[at] = bin_of_amplitude(
        scale * std::hypot(amplitudes_[at + 1].real, amplitudes_[at + 1].imaginary));
}

}  // namespace gateway
