// Rows of a matrix, wherever they lie: each is asked for before its turn to be worked on.
//
//   std::vector<const float*> rows = …;
//   corank::for_each_row(rows, columns, [&](const float* row) { … });
#pragma once

#include "blocks.hpp"

namespace corank {

namespace detail {

template <class Position, class Work>
strand<> rows_in_turn(lane&, Position rows, supply& left, size_t count, size_t bytes, Work& work) {
  for (; count > 0; --count) {
    auto* const row = rows[static_cast<std::iter_difference_t<Position>>(left.take(1))];
    co_await prefetch(row, bytes);
    work(row);
  }
}

}  // namespace detail

// Calls work(row) for each of the rows, a range of pointers to `columns` elements each. Returns how many, less than all only if a stop was requested. With an
// automatic width rows that lie in memory in order are worked on one after the other; elsewhere the calls' order is another one than that of the rows.
template <std::ranges::random_access_range Rows, class Work>
size_t for_each_row(Rows&& rows, size_t columns, Work work, interleave_options options = {}) {
  const auto first = std::ranges::begin(rows);
  using position = std::remove_const_t<decltype(first)>;
  const size_t bytes = columns * sizeof(**first);
  const auto count = static_cast<size_t>(std::ranges::distance(rows));
  if (options.bytes == 0) options.bytes = bytes * count;
  options.at_once = detail::addresses_of(bytes);
  const auto at = [&](size_t row) { return first + static_cast<std::iter_difference_t<position>>(row); };
  return detail::interleave_blocks(
      count, [&](lane& here, detail::supply& left, size_t block) { return detail::rows_in_turn<position, Work>(here, first, left, block, bytes, work); },
      [&](size_t from, size_t behind) {
        for (position now = at(from), last = at(behind); now != last; ++now) work(*now);
      },
      options);
}

}  // namespace corank
