// Interleaves many strands on one thread, so that one computes while others wait for memory.
//
//   std::vector<value> values = corank::interleave(
//       keys, [&](corank::lane& here, key k) { return find(here, tree, k); });
//
// The result is that of a loop over the items: the outputs in order, or the exception of the first
// item that throws. Items behind that one have no effect. The idea is the thesis's (section 4.3).
// There the runner searches for the next coroutine, and each item's frame is allocated.
#pragma once

#include "interleave/options.hpp"
#include "interleave/turns.hpp"

#include <iterator>
#include <ranges>
#include <vector>

namespace corank {

// Interleaves `work(lane&, item)`, which returns a strand, over the items, and writes the outputs
// to `out[0]`, `out[1]`, … Returns the number of completed items. It is less than all only after
// `lane::stop` or a request to `options.stop`; the completed items are then the first ones.
//
// `items` is a range; each item is passed as `*position`. A run allocates once, for any number of
// items: see lane.hpp. Throws the exception of the first item that throws, or std::bad_alloc. By
// then the outputs of the items before it are written, and the strands behind it are destroyed. The
// work must not change what later items read.
template <std::ranges::input_range Items, class Work, std::random_access_iterator Output>
size_t interleave(Items&& items, Work&& work, Output out, const interleave_options& options = {}) {
  auto write = [&out](size_t at, auto&& value) {
    out[static_cast<std::iter_difference_t<Output>>(at)] = std::move(value);
  };
  return detail::interleave_into(items, work, write, options);
}

// Interleaves as above. Returns the outputs of the completed items, or their number if the strands
// return nothing.
template <std::ranges::input_range Items, class Work>
auto interleave(Items&& items, Work&& work, const interleave_options& options = {}) {
  using value = detail::output_of_work<Work, std::ranges::range_reference_t<Items>>;
  if constexpr (detail::is_void<value>) {
    auto nothing = [](size_t, auto&&) {};
    return detail::interleave_into(items, work, nothing, options);
  } else {
    std::vector<value> outputs;
    if constexpr (std::ranges::sized_range<Items>) outputs.resize(std::ranges::size(items));
    auto write = [&outputs](size_t at, value&& output) {
      if (at >= outputs.size()) outputs.resize(at + 1);
      outputs[at] = std::move(output);
    };
    outputs.resize(detail::interleave_into(items, work, write, options));
    return outputs;
  }
}

}  // namespace corank
