// Computes the bins of a datagram from accelerations.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct kiss_fftr_state;

namespace gateway {

// The binary places behind the point in a datagram's fixed point, which has 3 places before it,
// sign included.
inline constexpr int fraction_bits = 13;

// Returns a bin's value: the logarithm to base 10 of the amplitude in g, which counts as at least
// 0.0001 g. It lies from -4 to less than 4.
int16_t bin_of_amplitude(double amplitude);

// Computes the spectrum of 2 F samples in F bins. The bins are those of the frequencies from one to
// F over the samples' time. Uses KISS FFT.
class spectrum {
 public:
  explicit spectrum(size_t features);
  ~spectrum();
  spectrum(const spectrum&) = delete;
  spectrum& operator=(const spectrum&) = delete;

  [[nodiscard]] size_t samples() const { return window_.size(); }

  // Computes `bins` from `acceleration`, which has `samples()` elements, twice as many.
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
