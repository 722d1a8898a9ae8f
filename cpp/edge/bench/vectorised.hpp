// The models `vectorised`, compiled for the very machine. Everything here is data and loops, so the
// linker can give nothing of it to other files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

// The layout of corank::btree<uint32_t, uint32_t>'s leaves.
template <size_t LeafBytes>
struct raw_leaf {
  static constexpr size_t room = (LeafBytes - 2 * sizeof(void*)) / 8;
  uint32_t count;
  uint32_t keys[room];
  const raw_leaf* next;
  uint32_t values[room];
};
template <size_t LeafBytes>
uint64_t vectorised_scan(const void* first);

// A pass over rows; see rows.cpp. `in` are the rows, and `out` is for their results.
template <class T>
void vectorised_svm(const T* const* in, size_t rows, size_t columns, const T* weights,
                    uint8_t* out);
template <class T>
void vectorised_norm(const T* const* in, size_t rows, size_t columns, T* const* out);
template <class T>
void vectorised_cnn(const T* const* in, size_t rows, size_t columns, T* const* out);

}  // namespace bench
