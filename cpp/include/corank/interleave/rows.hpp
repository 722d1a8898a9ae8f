// Rows of a matrix, wherever they lie: each is asked for before its turn to be worked on.
//
//   std::vector<const float*> rows = …;
//   corank::for_each_row(rows, columns, [&](const float* row) { … });
#pragma once

#include "../interleave.hpp"

namespace corank {

namespace detail {
template <class Row, class Work>
strand<> row_in_turn(lane&, Row* row, size_t bytes, Work& work) {
  co_await prefetch(row, bytes);
  work(row);
}
}  // namespace detail

// Calls work(row) for each row, of `columns` elements; returns how many, less than all only if a stop was requested. What one call needs of another one's result it must
// not read: the calls' order is only about that of the rows.
template <std::ranges::sized_range Rows, class Work>
size_t for_each_row(Rows&& rows, size_t columns, Work work, interleave_options options = {}) {
  using element = std::remove_pointer_t<std::ranges::range_value_t<Rows>>;
  const size_t bytes = columns * sizeof(element);
  if (options.bytes == 0) options.bytes = bytes * std::ranges::size(rows);
  either forms{[&](lane& here, element* row) { return detail::row_in_turn(here, row, bytes, work); }, [&](element* row) { work(row); }};
  return interleave(rows, forms, options);
}

}  // namespace corank
