// Choosing the width: `automatic`.
//
// What fits into the second cache waits so little that a switch costs more. For the rest the machine's memory says how many strands are enough, and a trial says
// whether they pay: a few items are completed in the plain form and a few interleaved, in turn; the better form goes on, until the next trial. So data in
// order, which the processor's own prefetcher brings, stays in the plain form. No item is done twice.
#pragma once

#include "machine.hpp"
#include "options.hpp"

namespace corank::detail {

// A trial has so many rounds of each form; a round takes so long, or as many items as there are twice lanes.
inline constexpr size_t trial_rounds = 3;
inline constexpr double trial_nanoseconds = 10'000;
// Until the next trial so many times its time passes.
inline constexpr double trial_distance = 100;
// Interleaving must be better by this factor.
inline constexpr double trial_margin = 0.95;

// What a form takes: nanoseconds for each item, and in all.
struct trial {
  double best = 1e300;
  double spent = 0;

  // One round: `go_on(count)` completes items until `count` are.
  template <class Turns, class Form>
  void round(const Turns& run, size_t least, Form&& go_on) {
    const size_t begin = run.count();
    double time = 0;
    // More and more at a time, so that the clock costs little.
    for (size_t more = least; time < trial_nanoseconds && run.more(); more += more) time += nanoseconds([&] { go_on(run.count() + more); });
    const size_t done = run.count() - begin;
    spent += time;
    if (done > 0) best = std::min(best, time / static_cast<double>(done));
  }
};

template <class Turns>
void choose_width(Turns& run, size_t bytes) {
  constexpr size_t all = ~size_t{0};
  if constexpr (!Turns::has_plain_form) {
    run.interleave(machine_memory().parallel, all);
  } else {
    if (bytes != 0 && bytes <= second_cache()) return run.plain(all);
    const size_t width = machine_memory().parallel;
    while (run.more()) {
      trial plain, interleaved;
      for (size_t time = 0; time < trial_rounds && run.more(); ++time) {
        plain.round(run, 1, [&](size_t count) { run.plain(count); });
        interleaved.round(run, 2 * width, [&](size_t count) { run.interleave(width, count); });
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
