// From accelerations to the bins of a datagram.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct kiss_fftr_state;

namespace gateway {

// One in a datagram's fixed point: 3 places before the point, with the sign, and 13 behind it.
inline constexpr int fraction_bits = 13;

// A bin's value: the logarithm to base 10 of the amplitude in g, 0.0001 g at least; so from -4 to
// less than 4.
int16_t bin_of_amplitude(double amplitude);

// The spectrum of 2 F samples in F bins: those of the frequencies from one to F over the samples'
// time. Uses KISS FFT.
class spectrum {
 public:
  explicit spectrum(size_t features);
  ~spectrum();
  spectrum(const spectrum&) = delete;
  spectrum& operator=(const spectrum&) = delete;

  [[nodiscard]] size_t samples() const { return window_.size(); }

  // `acceleration` has `samples()` elements, `bins` half as many.
  void transform(std::span<const float> acceleration, std::span<int16_t> bins);

 private:
  struct amplitude {
    float real, imaginary;
  };
  kiss_fftr_state* plan_;
  std::vector<float> window_, windowed_;
  std::vector<amplitude> amplitudes_;
};

}  // namespace gateway
