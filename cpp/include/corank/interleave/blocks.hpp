// Items in blocks: a strand works on several items, which spreads the cost of its begin and end.
#pragma once

#include "../interleave.hpp"

namespace corank::detail {

// The most items of a block.
inline constexpr size_t most_in_block = 16;

// Hands out the items that no strand has begun. A strand takes the next ones, so the active items
// are neighbours. Their keys and outputs then lie in order, and the processor's own prefetcher
// fetches them.
class supply {
 public:
  // Takes `count` items and returns the index of the first.
  [[gnu::always_inline]] size_t take(size_t count) noexcept {
    return std::exchange(next_, next_ + count);
  }

 private:
  size_t next_ = 0;
};

// The two forms of the work on a block, and the plain form for several adjacent blocks:
// `stretch(first, blocks)`.
template <class Strand, class Plain, class Stretch>
struct on_blocks {
  Strand strand;
  Plain plain;
  Stretch stretch;
};
template <class Strand, class Plain, class Stretch>
on_blocks(Strand, Plain, Stretch) -> on_blocks<Strand, Plain, Stretch>;
template <class Strand, class Plain, class Stretch>
inline constexpr bool has_plain<on_blocks<Strand, Plain, Stretch>> = true;

// Completes the items 0 to `count`. `in_turn(lane&, supply&, block)` is a strand<> that takes
// exactly `block` items and works on them. `plain(from, behind)` works on the items between as
// plain code. Returns the number of completed items, less than all only after a request to stop.
template <class InTurn, class Plain>
size_t interleave_blocks(size_t count, InTurn in_turn, Plain plain,
                         const interleave_options& options) {
  if (stays_plain(options) && !options.stop.stop_possible()) return plain(0, count), count;
  // Short batches have small blocks, so that every lane gets a strand.
  const size_t block = std::clamp(count / (2 * most_lanes), size_t{1}, most_in_block);
  supply items;
  const auto size_of = [=](size_t at) { return std::min(block, count - at * block); };
  const auto strand_form = [&](lane& here, size_t at) { return in_turn(here, items, size_of(at)); };
  const auto stretch = [&](size_t at, size_t blocks) {
    const size_t items_there = std::min(blocks * block, count - at * block),
                 from = items.take(items_there);
    plain(from, from + items_there);
  };
  const auto plain_form = [&](size_t at) { stretch(at, 1); };
  const size_t blocks = (count + block - 1) / block;
  return std::min(count, block * interleave(std::views::iota(size_t{0}, blocks),
                                            on_blocks{strand_form, plain_form, stretch}, options));
}

}  // namespace corank::detail
