// Many strands in turn on one thread, so that each computes while the others wait for memory.
//
//   std::vector<value> values = corank::interleave(keys, [&](corank::lane& here, key k) { return
//   find(here, tree, k); });
//
// The result is what a loop over the items would give: outputs in the items' order, the exception
// of the first item that throws, and nothing of the items behind it. The idea is the thesis's
// (section 4.3); there the runner looks for the next coroutine, and each item's frame is allocated.
#pragma once

#include "interleave/options.hpp"
#include "interleave/turns.hpp"

#include <iterator>
#include <ranges>
#include <vector>

namespace corank {

// Interleaves `work(lane&, item)`, which returns a strand, over the items, and writes outputs to
// `out[0]`, `out[1]`, … Returns how many items were completed: all, unless one called `lane::stop`
// or `options.stop` was requested; then the first so many.
//
// `items` is a range; each item is handed over as `*position`. Allocates once, whatever the number
// of items: see lane.hpp. Throws what the first item throws that throws, or std::bad_alloc; outputs
// of items before it have been written, and strands of items behind it have been destroyed. The
// work must not change what later items read.
template <std::ranges::input_range Items, class Work, std::random_access_iterator Output>
size_t interleave(Items&& items, Work&& work, Output out, const interleave_options& options = {}) {
  auto write = [&out](size_t at, auto&& value) {
    out[static_cast<std::iter_difference_t<Output>>(at)] = std::move(value);
  };
  return detail::interleave_into(items, work, write, options);
}

// As above. Returns the outputs, of the items that were completed; where the strands return
// nothing, how many items were completed.
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
