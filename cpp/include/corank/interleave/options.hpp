// How a run is interleaved.
#pragma once

#include "../meta.hpp"

#include <stop_token>

namespace corank {

// The most lanes of a run: no present processor has more misses in flight.
inline constexpr size_t most_lanes = 64;

// A width that the library chooses: see interleave/width.hpp.
inline constexpr size_t automatic = 0;

// The options of a run.
struct interleave_options {
  // The number of strands that take turns, at most `most_lanes`, or `automatic`.
  size_t width = automatic;
  // For `automatic`: the bytes of all data that the items read; 0 if unknown.
  size_t bytes = 0;
  // For `automatic`: the number of addresses that a strand prefetches before each yield.
  size_t at_once = 1;
  // After a request to stop no item begins; those that have begun are completed.
  std::stop_token stop = {};
};

// The same work in two forms: a strand, and plain code. `automatic` uses the plain form where
// memory does not wait. Both must have the same result. The plain form is called as `plain(item)`,
// or as `plain(lane&, item)` if it calls `lane::stop`.
template <class Strand, class Plain>
struct either {
  Strand strand;
  Plain plain;
};
template <class Strand, class Plain>
either(Strand, Plain) -> either<Strand, Plain>;

}  // namespace corank
