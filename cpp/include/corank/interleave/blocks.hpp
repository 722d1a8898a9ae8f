// Items in blocks: a strand works on several items, one after the other, so that its beginning and its end cost little for each.
#pragma once

#include "../interleave.hpp"

namespace corank::detail {

// A block is never larger.
inline constexpr size_t most_in_block = 16;

// Completes the items 0 to `count`: `in_turn(lane&, from, behind)` is a strand<> that works on the items in between, `plain(from, behind)` does the same as plain code.
// Returns how many were completed, less than all only if a stop was requested.
template <class InTurn, class Plain>
size_t interleave_blocks(size_t count, InTurn in_turn, Plain plain, const interleave_options& options) {
  if (stays_plain(options) && !options.stop.stop_possible()) return plain(0, count), count;
  // A short batch in small blocks, so that there is a strand for every lane.
  const size_t block = std::clamp(count / (2 * most_lanes), size_t{1}, most_in_block);
  const auto behind = [=](size_t from) { return std::min(from + block, count); };
  const auto strand_form = [&](lane& here, size_t from) { return in_turn(here, from, behind(from)); };
  const auto plain_form = [&](size_t from) { plain(from, behind(from)); };
  const auto first_items = std::views::iota(size_t{0}, (count + block - 1) / block) | std::views::transform([=](size_t at) { return at * block; });
  return std::min(count, block * interleave(first_items, either{strand_form, plain_form}, options));
}

}  // namespace corank::detail
