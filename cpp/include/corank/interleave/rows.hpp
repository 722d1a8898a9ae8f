// Rows of a matrix at any addresses, prefetched a few at a time before the work on them.
//
//   std::vector<const float*> rows = …;
//   corank::for_each_row(rows, columns, [&](const float* row) { … });
#pragma once

#include "blocks.hpp"

namespace corank {

namespace detail {

// The rows that a strand prefetches before it yields. Scattered rows lie in different pages.
// Adjacent prefetches overlap the page walks of several rows; single prefetches, with work between
// them, may wait one by one. With huge pages one row at a time is faster than that, and four are as
// fast. More than four gain nothing.
inline constexpr size_t rows_at_once = 4;
// Returns `interleave_options::at_once` for rows of `bytes` bytes.
constexpr size_t addresses_of_rows(size_t bytes) { return rows_at_once * addresses_of(bytes); }

// Works on rows by their numbers: `ask(row)` is the address to prefetch, and `work(row)` the work.
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

// Calls work(row) for each row; `rows` is a range of pointers to `columns` elements each. Returns
// the number of calls, less than all only after a request to stop. With an automatic width, rows in
// order in memory are worked on in order. Otherwise the order of the calls differs from that of the
// rows.
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
