// Slots that fit exactly.
//
//   corank::slot<corank::exact("blink")> blink_slot;
//
// The number comes from the table of frames of a first build. The CMake function
// corank_exact_slots() makes and reads that table in the same build step. A change of the coroutine
// changes the slot with the next build.
#pragma once

#include <stddef.h>

namespace corank {

namespace detail {

struct known_frame {
  const char* name;
  size_t size;
};

#if !defined(CORANK_PROBE) && __has_include("corank_frames.inc")
inline constexpr known_frame known_frames[] = {
#include "corank_frames.inc"
};
#elif !defined(CORANK_PROBE)
#error \
    "corank: no corank_frames.inc: call corank_exact_slots(target) in CMakeLists.txt, or run `cargo xtask frames --write corank_frames.inc` on a build with -DCORANK_PROBE"
#endif

constexpr bool equal(const char* one, const char* other) {
  for (; *one != 0 && *one == *other; ++one, ++other) {
  }
  return *one == *other;
}

// Stops the compilation where exact() finds no coroutine of that name.
inline void corank_exact_knows_no_coroutine_of_this_name() {}

}  // namespace detail

// Returns the size of a coroutine's frame, by its name without namespaces. Of two coroutines with
// one name, the larger counts. Of several names, the largest counts, for a pool that they share.
template <class... Names>
consteval size_t exact(Names... names) {
#if defined(CORANK_PROBE)
  // The first build, which never runs: large enough for any frame.
  ((void)names, ...);
  return 4096;
#else
  size_t largest = 0;
  const char* const all[] = {names...};
  for (const char* name : all) {
    size_t size = 0;
    for (const detail::known_frame& each : detail::known_frames)
      if (detail::equal(each.name, name)) size = each.size;
    if (size == 0) detail::corank_exact_knows_no_coroutine_of_this_name();
    if (size > largest) largest = size;
  }
  return largest;
#endif
}

}  // namespace corank
