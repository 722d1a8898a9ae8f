// The three algorithms over rows: support vector machine, normalisation, convolution (thesis,
// section 4.3.2).
#include "measure.hpp"
#include "protothread.hpp"
#include "vectorised.hpp"

#include <corank/interleave/rows.hpp>

#include <memory>
#include <numeric>

#define CORANK_KERNELS bench::usual
#include "kernels.hpp"

namespace bench {
namespace {

template <class T>
const char* name_of();
template <>
const char* name_of<int16_t>() {
  return "i16";
}
template <>
const char* name_of<int32_t>() {
  return "i32";
}
template <>
const char* name_of<float>() {
  return "f32";
}
template <>
const char* name_of<double>() {
  return "f64";
}

// Returns a small whole number of each type. Sums of products are then exact in any order.
template <class T>
T element(size_t at) {
  return static_cast<T>(static_cast<int>(mix(at, 7) >> 40 & 255) - 128);
}

// An allocator of whole cache lines. A row of whole lines then begins with one, wherever the heap
// has room.
template <class T>
struct in_whole_lines {
  using value_type = T;
  in_whole_lines() = default;
  template <class Other>
  in_whole_lines(const in_whole_lines<Other>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{corank::cache_line}));
  }
  void deallocate(T* memory, size_t) {
    ::operator delete(memory, std::align_val_t{corank::cache_line});
  }
  bool operator==(const in_whole_lines&) const = default;
};

// A matrix whose rows lie in memory in order or scattered, and one of the same layout for the
// results.
template <class T>
struct matrix {
  matrix(size_t bytes, size_t row_columns, const std::string& layout, bool with_output)
      : columns(row_columns), data(bytes / sizeof(T)), output(with_output ? bytes / sizeof(T) : 0) {
    std::vector<T> pattern(1 << 16);
    for (size_t at = 0; at < pattern.size(); ++at) pattern[at] = element<T>(at);
    for (size_t at = 0; at < data.size(); ++at) data[at] = pattern[at % pattern.size()];
    const size_t rows = data.size() / columns;
    const std::vector<uint32_t> places = scattered(layout == "scattered" ? rows : 0);
    for (size_t row = 0; row < rows; ++row) {
      const size_t place = places.empty() ? row : places[row];
      in.push_back(&data[place * columns]);
      if (with_output) out.push_back(&output[place * columns]);
    }
  }
  size_t columns;
  std::vector<T, in_whole_lines<T>> data, output;
  std::vector<const T*> in;
  std::vector<T*> out;
};

// An algorithm is `work(row)`, by the row's number, for rows from `first()` up to `behind()`.
// `ask(row)` returns the memory that the row reads and that no row before it has read. The result
// of a row depends on the row alone, so the order of the rows does not matter.
template <class T>
struct svm {
  static constexpr const char* name = "svm";
  static constexpr bool maps = false;
  matrix<T>& of;
  std::vector<T> weights;
  std::vector<uint8_t> decided;

  explicit svm(matrix<T>& matrix) : of(matrix), weights(matrix.columns), decided(matrix.in.size()) {
    for (size_t at = 0; at < weights.size(); ++at)
      weights[at] = static_cast<T>(element<T>(at + 12345) / 2);
  }
  [[nodiscard]] size_t first() const { return 0; }
  [[nodiscard]] size_t behind() const { return of.in.size(); }
  [[nodiscard]] const T* ask(size_t row) const { return of.in[row]; }
  [[gnu::always_inline]] void work(size_t row) {
    decided[row] = usual::svm(of.in[row], of.columns, weights.data());
  }
  void vectorised() {
    vectorised_svm(of.in.data(), of.in.size(), of.columns, weights.data(), decided.data());
  }
};

template <class T>
struct norm {
  static constexpr const char* name = "norm";
  static constexpr bool maps = true;
  matrix<T>& of;

  explicit norm(matrix<T>& matrix) : of(matrix) {}
  [[nodiscard]] size_t first() const { return 0; }
  [[nodiscard]] size_t behind() const { return of.in.size(); }
  [[nodiscard]] const T* ask(size_t row) const { return of.in[row]; }
  [[gnu::always_inline]] void work(size_t row) { usual::norm(of.in[row], of.columns, of.out[row]); }
  void vectorised() { vectorised_norm(of.in.data(), of.in.size(), of.columns, of.out.data()); }
};

template <class T>
struct cnn {
  static constexpr const char* name = "cnn";
  static constexpr bool maps = true;
  matrix<T>& of;

  explicit cnn(matrix<T>& matrix) : of(matrix) {}
  [[nodiscard]] size_t first() const { return 1; }
  [[nodiscard]] size_t behind() const { return of.in.size() - 1; }
  [[nodiscard]] const T* ask(size_t row) const { return of.in[row + 1]; }
  [[gnu::always_inline]] void work(size_t row) {
    usual::cnn(of.in[row - 1], of.in[row], of.in[row + 1], of.columns, of.out[row]);
  }
  void vectorised() { vectorised_cnn(of.in.data(), of.in.size(), of.columns, of.out.data()); }
};

template <class Algorithm>
struct models {
  Algorithm& of;
  size_t bytes;

  // Not inlined, for the same reason as the kernels: `auto` runs it too.
  [[gnu::noinline]] void sequential(size_t from, size_t to) const {
    for (size_t row = from; row < to; ++row) of.work(row);
  }

  void sequential_prefetch() const {
    for (size_t row = of.first(); row < of.behind(); ++row) {
      if (row + 2 < of.behind()) corank::prefetch_now(of.ask(row + 2), bytes);
      of.work(row);
    }
  }

  // As the library's for_each_row, but by the row's number, or without prefetching.
  static corank::strand<> only_in_turn(corank::lane&, const models* self,
                                       corank::detail::supply& left, size_t count) {
    for (; count > 0; --count) {
      const size_t row = self->of.first() + left.take(1);
      co_await corank::turn{};
      self->of.work(row);
    }
  }
  template <bool Prefetch>
  void coroutine(const corank::interleave_options& options) const {
    const auto ask = [this](size_t row) { return of.ask(of.first() + row); };
    auto work = [this](size_t row) { of.work(of.first() + row); };
    corank::detail::interleave_blocks(
        of.behind() - of.first(),
        [&](corank::lane& here, corank::detail::supply& left, size_t count) {
          if constexpr (Prefetch)
            return corank::detail::rows_in_turn(here, left, count, bytes, ask, work);
          else
            return only_in_turn(here, this, left, count);
        },
        [this](size_t from, size_t behind) { sequential(of.first() + from, of.first() + behind); },
        options);
  }

  void automatic(size_t all) const {
    coroutine<true>({.bytes = all, .at_once = corank::detail::addresses_of_rows(bytes)});
  }

  struct thread {
    int line;
    size_t row;
  };
  bool go_on(thread& self) const {
    PT_BEGIN(self);
    corank::prefetch_now(of.ask(self.row), bytes);
    PT_YIELD(self);
    of.work(self.row);
    PT_END(self);
  }
  void protothreads(size_t width) const {
    size_t next = of.first();
    run_protothreads<thread>(
        width,
        [&](thread& self) {
          if (next >= of.behind()) return false;
          self = {0, next++};
          return true;
        },
        [&](thread& self) { return go_on(self); });
  }

  // Prefetches a group of rows, then works on them (group prefetching).
  void by_hand(size_t width) const {
    for (size_t from = of.first(); from < of.behind(); from += width) {
      const size_t to = std::min(from + width, of.behind());
      for (size_t row = from; row < to; ++row) corank::prefetch_now(of.ask(row), bytes);
      for (size_t row = from; row < to; ++row) of.work(row);
    }
  }

  void threads(second_thread& other) const {
    const size_t middle = (of.first() + of.behind()) / 2;
    other.both([&] { sequential(of.first(), middle); }, [&] { sequential(middle, of.behind()); });
  }
};

// Returns a number that depends on every result, and wipes the results.
template <class Results>
uint64_t result_of(Results& results) {
  return mix_all(results, [](auto& each) {
    return static_cast<uint64_t>(static_cast<int64_t>(std::exchange(each, {}) * 1024));
  });
}

template <template <class> class Algorithm, class T>
void measure(size_t bytes, size_t columns, const std::string& layout) {
  // A convolution needs three rows.
  if (bytes / (columns * sizeof(T)) < 3) return;
  const point measured{Algorithm<T>::name, name_of<T>(), layout, bytes, 0, columns};
  if (spent(measured)) return;
  matrix<T> data(bytes, columns, layout, Algorithm<T>::maps);
  Algorithm<T> of(data);
  const models<Algorithm<T>> run{of, columns * sizeof(T)};
  second_thread other;
  std::vector<model> all{
      {"sequential", [&] { run.sequential(of.first(), of.behind()); }},
      {"auto", [&] { run.automatic(bytes); }},
      {"sequential-prefetch", [&] { run.sequential_prefetch(); }},
      {"vectorised", [&] { of.vectorised(); }},
      {"threads-2", [&] { run.threads(other); }},
  };
  for (const size_t width : widths()) {
    if (without_prefetch(width))
      all.push_back(
          {"coroutine", [&, width] { run.template coroutine<false>({.width = width}); }, width});
    all.push_back({"coroutine-prefetch",
                   [&, width] { run.template coroutine<true>({.width = width}); }, width});
    all.push_back({"protothreads", [&, width] { run.protothreads(width); }, width});
    all.push_back({"hand-interleaved", [&, width] { run.by_hand(width); }, width});
  }
  compare(measured, all, [&] {
    if constexpr (Algorithm<T>::maps)
      return result_of(data.output);
    else
      return result_of(of.decided);
  });
}

template <template <class> class Algorithm>
void all_types(size_t bytes, size_t columns) {
  if (!wanted(chosen.algorithms, Algorithm<float>::name)) return;
  for (const std::string layout : {"ordered", "scattered"}) {
    if (wanted(chosen.types, "i16")) measure<Algorithm, int16_t>(bytes, columns, layout);
    if (!chosen.quick && wanted(chosen.types, "i32"))
      measure<Algorithm, int32_t>(bytes, columns, layout);
    if (wanted(chosen.types, "f32")) measure<Algorithm, float>(bytes, columns, layout);
    if (!chosen.quick && wanted(chosen.types, "f64"))
      measure<Algorithm, double>(bytes, columns, layout);
  }
}

}  // namespace

void rows() {
  for (const size_t bytes : sizes()) {
    all_types<svm>(bytes, 256);
    all_types<norm>(bytes, 256);
    all_types<cnn>(bytes, 256);
  }
}

}  // namespace bench
