// Rows of a matrix, wherever they lie: they are asked for before their turn to be worked on, a few
// at a time.
//
//   std::vector<const float*> rows = …;
//   corank::for_each_row(rows, columns, [&](const float* row) { … });
#pragma once

#include "blocks.hpp"

namespace corank {

namespace detail {

// So many rows a strand asks for before it gives way. Scattered rows lie in pages of their own:
// requests that follow each other closely can wait for the pages' addresses together, while those
// of single rows, with the work on a row in between, may wait one by one (with huge pages one row
// at a time is faster, and four are as fast). More than four gain nothing.
inline constexpr size_t rows_at_once = 4;
// As `interleave_options::at_once`, for rows of so many bytes.
constexpr size_t addresses_of_rows(size_t bytes) { return rows_at_once * addresses_of(bytes); }

// Some rows at a time, by their numbers: `ask(row)` is the address that is asked for, `work(row)`
// what is done with the row then.
template <class Ask, class Work>
strand<> rows_in_turn(lane&, supply& left, size_t count, size_t bytes, const Ask& ask, Work& work) {
  while (count > 0) {
    const size_t now = std::min(rows_at_once, count), from = left.take(now);
    count -= now;
    for (size_t row = from; row < from + now; ++row) prefetch_now(ask(row), bytes);
    co_await turn{};
    for (size_t row = from; row < from + now; ++row) work(row);
  }
}

}  // namespace detail

// Calls work(row) for each of the rows, a range of pointers to `columns` elements each. Returns how
// many, less than all only if a stop was requested. With an automatic width rows that lie in memory
// in order are worked on one after the other; elsewhere the calls' order is another one than that
// of the rows.
template <std::ranges::random_access_range Rows, class Work>
size_t for_each_row(Rows&& rows, size_t columns, Work work, interleave_options options = {}) {
  const auto first = std::ranges::begin(rows);
  using position = std::remove_const_t<decltype(first)>;
  const size_t bytes = columns * sizeof(**first);
  const auto count = static_cast<size_t>(std::ranges::distance(rows));
  if (options.bytes == 0) options.bytes = bytes * count;
  options.at_once = detail::addresses_of_rows(bytes);
  const auto at = [&](size_t row) {
    return first + static_cast<std::iter_difference_t<position>>(row);
  };
  const auto ask = [&](size_t row) { return *at(row); };
  auto work_on = [&](size_t row) { work(*at(row)); };
  return detail::interleave_blocks(
      count,
      [&](lane& here, detail::supply& left, size_t block) {
        return detail::rows_in_turn(here, left, block, bytes, ask, work_on);
      },
      [&](size_t from, size_t behind) {
        for (position now = at(from), last = at(behind); now != last; ++now) work(*now);
      },
      options);
}

}  // namespace corank
