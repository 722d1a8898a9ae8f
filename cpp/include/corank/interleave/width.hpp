// Choosing the width: `automatic`.
//
// What fits into the second cache waits so little that a switch costs more. For the rest the machine's memory says how many strands are enough, and a trial says
// whether they pay: a few items are completed in the plain form and a few interleaved, in turn; the better form goes on, until the next trial. So data in
// order, which the processor's own prefetcher brings, stays in the plain form. No item is done twice. A run that is too short for a trial goes by the size of its data.
#pragma once

#include "machine.hpp"
#include "options.hpp"

namespace corank::detail {

// A trial has at most so many rounds of each form, and one where the difference is clear; a round takes so long, or as many items as there are lanes.
inline constexpr size_t trial_rounds = 3;
inline constexpr double trial_nanoseconds = 20'000;
inline constexpr double clear_difference = 1.5;
// Until the next trial so many times its time passes; a run that takes less than this in the plain form has none.
inline constexpr double trial_distance = 100;
inline constexpr double shortest_with_trial = 1e6;
// Interleaving must be better by this factor.
inline constexpr double trial_margin = 0.9;

// Whether data of so many bytes, 0 if nobody knows, is worth no thought.
inline bool stays_plain(const interleave_options& options) {
  return options.width == automatic && options.bytes != 0 && options.bytes <= second_cache();
}

// What a form takes: nanoseconds for each item, and in all.
struct trial {
  double best = 1e300;
  double spent = 0;

  // One round: `go_on(count)` completes items until `count` are.
  template <class Turns, class Form>
  void round(const Turns& run, size_t least, Form&& go_on) {
    double time = 0, last = best;
    // More and more at a time, so that the clock costs little. The last stretch counts, which is half of the round: before it the processor's prefetcher finds its way.
    for (size_t more = least; time < trial_nanoseconds && run.more(); more += more) {
      const size_t from = run.count();
      const double stretch = nanoseconds([&] { go_on(from + more); });
      time += stretch;
      if (const size_t done = run.count() - from; done > 0) last = stretch / static_cast<double>(done);
    }
    spent += time;
    best = std::min(best, last);
  }
};

// As many strands as the machine has loads under way.
inline size_t enough_strands(const interleave_options& options) {
  const size_t at_once = std::max(options.at_once, size_t{1});
  return (machine_memory().parallel + at_once - 1) / at_once;
}

template <class Turns>
void choose_width(Turns& run, const interleave_options& options) {
  constexpr size_t all = ~size_t{0};
  if constexpr (!Turns::has_plain_form) {
    run.interleave(enough_strands(options), all);
  } else {
    if (stays_plain(options)) return run.plain(all);
    const size_t width = enough_strands(options);
    while (run.more()) {
      trial plain, interleaved;
      for (size_t time = 0; time < trial_rounds && run.more(); ++time) {
        plain.round(run, 1, [&](size_t count) { run.plain(count); });
        if (plain.best * static_cast<double>(run.left()) < shortest_with_trial)
          return options.bytes > machine_memory().last_cache ? run.interleave(width, all) : run.plain(all);
        interleaved.round(run, width, [&](size_t count) { run.interleave(width, count); });
        if (std::max(plain.best / interleaved.best, interleaved.best / plain.best) > clear_difference) break;
      }
      const bool pays = interleaved.best < trial_margin * plain.best;
      const double items = trial_distance * (plain.spent + interleaved.spent) / (pays ? interleaved : plain).best;
      const size_t until = run.count() + static_cast<size_t>(items) + 1;
      if (pays) {
        run.interleave(width, until);
      } else {
        run.plain(until);
      }
    }
  }
}

}  // namespace corank::detail
