// How a run is interleaved.
#pragma once

#include "../meta.hpp"

#include <stop_token>

namespace corank {

// No run has more lanes: beyond, no processor of today has more misses under way.
inline constexpr size_t most_lanes = 64;

// As a width: see interleave/width.hpp.
inline constexpr size_t automatic = 0;

struct interleave_options {
  // How many strands take turns, at most `most_lanes`; or `automatic`.
  size_t width = automatic;
  // For `automatic`: how many bytes the whole data has that the items look into, as far as known.
  size_t bytes = 0;
  // For `automatic`: how many addresses a strand asks for each time that it gives way.
  size_t at_once = 1;
  // Once requested, no further item begins; those that have begun are completed.
  std::stop_token stop = {};
};

// The same work in two forms: as a strand, and as plain code, to which `automatic` falls back where
// there is nothing to wait for. Both must do the same. The plain form is called as `plain(item)`,
// or as `plain(lane&, item)` where it wants to call `lane::stop`.
template <class Strand, class Plain>
struct either {
  Strand strand;
  Plain plain;
};
template <class Strand, class Plain>
either(Strand, Plain) -> either<Strand, Plain>;

}  // namespace corank
