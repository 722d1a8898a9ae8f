#include "vectorised.hpp"

#define CORANK_KERNELS bench::for_this_machine
#include "kernels.hpp"

namespace bench {

template <size_t LeafBytes>
uint64_t vectorised_scan(const void* first) {
  uint64_t sum = 0;
  for (const auto* in = static_cast<const raw_leaf<LeafBytes>*>(first); in != nullptr;
       in = in->next)
    for (size_t at = 0; at < in->count; ++at) sum += in->values[at];
  return sum;
}
template uint64_t vectorised_scan<64>(const void*);
template uint64_t vectorised_scan<256>(const void*);
template uint64_t vectorised_scan<1024>(const void*);

template <class T>
void vectorised_svm(const T* const* in, size_t rows, size_t columns, const T* weights,
                    uint8_t* out) {
  for (size_t row = 0; row < rows; ++row)
    out[row] = for_this_machine::svm(in[row], columns, weights);
}
template <class T>
void vectorised_norm(const T* const* in, size_t rows, size_t columns, T* const* out) {
  for (size_t row = 0; row < rows; ++row) for_this_machine::norm(in[row], columns, out[row]);
}
template <class T>
void vectorised_cnn(const T* const* in, size_t rows, size_t columns, T* const* out) {
  for (size_t row = 1; row + 1 < rows; ++row)
    for_this_machine::cnn(in[row - 1], in[row], in[row + 1], columns, out[row]);
}

#define FOR(T)                                                                       \
  template void vectorised_svm(const T* const*, size_t, size_t, const T*, uint8_t*); \
  template void vectorised_norm(const T* const*, size_t, size_t, T* const*);         \
  template void vectorised_cnn(const T* const*, size_t, size_t, T* const*);
FOR(int16_t)
FOR(int32_t)
FOR(float)
FOR(double)

}  // namespace bench
