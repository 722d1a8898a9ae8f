// Choosing the width: `automatic`.
//
// What fits into the second cache waits so little that a switch costs more. For the rest the machine's memory says how many strands are enough, and a trial says
// whether they pay: a few items are completed in the plain form and a few interleaved, in turn; the better form goes on, until the next trial. So data in
// order, which the processor's own prefetcher brings, stays in the plain form. No item is done twice.
#pragma once

#include "machine.hpp"
#include "options.hpp"

namespace corank::detail {

// A trial: each form has so many rounds, each of so many items for each lane.
inline constexpr size_t trial_rounds = 3;
inline constexpr size_t trial_items = 16;
// Between two trials so many times their items are completed.
inline constexpr size_t trial_distance = 100;
// Interleaving must be better by this factor.
inline constexpr double trial_margin = 0.95;

template <class Turns>
void choose_width(Turns& run, size_t bytes) {
  constexpr size_t all = ~size_t{0};
  if constexpr (!Turns::has_plain_form) {
    run.interleave(machine_memory().parallel, all);
  } else {
    // Asked of the system alone: a short run over little data must not begin with measuring the memory.
    if (bytes != 0 && bytes <= system_size(_SC_LEVEL2_CACHE_SIZE, 512 << 10)) return run.plain(all);
    const size_t width = machine_memory().parallel;
    const size_t round = width * trial_items;
    while (run.more()) {
      double plain = 1e300, interleaved = 1e300;
      for (size_t time = 0; time < trial_rounds && run.more(); ++time) {
        plain = std::min(plain, nanoseconds([&] { run.plain(run.count() + round); }));
        interleaved = std::min(interleaved, nanoseconds([&] { run.interleave(width, run.count() + round); }));
      }
      const size_t until = run.count() + 2 * trial_rounds * round * trial_distance;
      if (interleaved < trial_margin * plain) {
        run.interleave(width, until);
      } else {
        run.plain(until);
      }
    }
  }
}

}  // namespace corank::detail
