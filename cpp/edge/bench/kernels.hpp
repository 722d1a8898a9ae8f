// The work of the algorithms on a row. This file is included twice, into two namespaces: once as
// the compiler optimises by default, and once for the very machine.
#include <cstddef>
#include <cstdint>

namespace CORANK_KERNELS {

// Defines the type for a sum of products, wide enough that nothing is lost. In the thesis's fixed
// point, 2^13 and 2^26 are 1.
template <class T>
struct number;
template <>
struct number<int16_t> {
  using sum = int32_t;
  static constexpr int fraction = 13;
};
template <>
struct number<int32_t> {
  using sum = int64_t;
  static constexpr int fraction = 26;
};
template <>
struct number<float> {
  using sum = float;
};
template <>
struct number<double> {
  using sum = double;
};

template <class T>
constexpr bool is_fixed = static_cast<typename number<T>::sum>(1) / 2 == 0;

template <class T>
constexpr T constant(double value) {
  if constexpr (is_fixed<T>)
    return static_cast<T>(value * (1 << number<T>::fraction));
  else
    return static_cast<T>(value);
}

template <class T>
constexpr T scaled(typename number<T>::sum product) {
  if constexpr (is_fixed<T>)
    return static_cast<T>(product >> number<T>::fraction);
  else
    return product;
}

// Not inlined, so that all models run the same machine code for a row. Otherwise the compiler's
// result for each copy would decide between the models.

// Support vector machine: returns the side of the plane on which the row lies.
template <class T>
[[gnu::noinline]] bool svm(const T* row, size_t columns, const T* weights) {
  typename number<T>::sum total = 0;
  for (size_t column = 0; column < columns; ++column)
    total += static_cast<typename number<T>::sum>(row[column]) * weights[column];
  return total >= 0;
}

// Normalisation to ImageNet's mean and standard deviation (of the red channel: 0.485 and 0.229,
// rounded so that floating point is exact in any order).
template <class T>
[[gnu::noinline]] void norm(const T* row, size_t columns, T* __restrict out) {
  // The largest factor that i16 holds is below 1 / 0.229.
  constexpr T mean = constant<T>(31.0 / 64),
              factor = constant<T>(is_fixed<T> && sizeof(T) == 2 ? 3.99 : 4.375);
  for (size_t column = 0; column < columns; ++column)
    out[column] = scaled<T>(static_cast<typename number<T>::sum>(row[column] - mean) * factor);
}

// A 3x3 kernel over a row and its neighbours. The outermost columns are left as they are.
template <class T>
[[gnu::noinline]] void cnn(const T* above, const T* row, const T* below, size_t columns,
                           T* __restrict out) {
  using sum = typename number<T>::sum;
  constexpr T corner = constant<T>(0.0625), edge = constant<T>(0.125), middle = constant<T>(0.25);
  for (size_t column = 1; column + 1 < columns; ++column) {
    const sum corners =
        sum(above[column - 1]) + above[column + 1] + below[column - 1] + below[column + 1];
    const sum edges = sum(above[column]) + row[column - 1] + row[column + 1] + below[column];
    out[column] = scaled<T>(corners * corner + edges * edge + sum(row[column]) * middle);
  }
}

}  // namespace CORANK_KERNELS
