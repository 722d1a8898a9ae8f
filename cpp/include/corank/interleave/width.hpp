// Choosing the width: `automatic`.
//
// Data that fits into the second cache waits so little that a switch costs more. Otherwise, the
// measured memory defines how many strands are enough, and a trial decides whether they pay. A
// trial completes a few items in the plain form and a few interleaved, in turn. The better form
// continues until the next trial. So data in order, which the processor's own prefetcher fetches,
// stays in the plain form. Each item is completed once. A run too short for a trial is decided by
// the size of its data.
//
// The loss by trials is bounded. With a strand form that takes up to `trial_worst` times as long as
// the plain one, a run takes at most 1/0.97 of the plain form's time.
#pragma once

#include "../prefetch.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace corank::detail {

// The most rounds of each form in a trial. It has at least two, and more while the difference is
// not clear.
inline constexpr size_t trial_rounds = 4;
inline constexpr double clear_difference = 1.5;
// The length of a round, as a part of the rest of the run, within limits in nanoseconds. It is at
// least one stretch of the least number of items.
inline constexpr double trial_part = 0.005;
inline constexpr double trial_shortest = 8'000;
inline constexpr double trial_longest = 20'000;
// The strands in a trial.
inline constexpr size_t trial_strands = 8;
// The assumed ratio of the strand form's time to the plain one's before a measurement, and the loss
// that a trial may cause, as a part of the rest.
inline constexpr double trial_worst = 2.5;
inline constexpr double trial_loss = 0.02;
// The distance to the next trial, as a multiple of a trial's time, and its number of parts. If a
// part takes clearly longer than the trial predicts, the data has changed and the next trial begins
// at once.
inline constexpr double trial_distance = 100;
inline constexpr size_t trial_parts = 8;
// The shortest run with a trial, in the plain form.
inline constexpr double shortest_with_trial = 1e6;
// The factor by which interleaving must be better.
inline constexpr double trial_margin = 0.9;

// Tests whether the data is so small that the plain form needs no trial.
inline bool stays_plain(const interleave_options& options) {
  return options.width == automatic && options.bytes != 0 && options.bytes <= second_cache();
}

// Measures nanoseconds by the steady clock.
struct steady_stopwatch {
  template <class Something>
  double operator()(Something&& something) const {
    return nanoseconds(something);
  }
};

// The measured times of a form: nanoseconds for each item, and in all.
struct trial {
  double best = 1e300;
  double spent = 0;

  // Runs one round of `length` nanoseconds. `go_on(count)` completes items until `count` are
  // complete.
  template <class Turns, class Form, class Stopwatch>
  void round(const Turns& run, size_t least, double length, Form&& go_on, Stopwatch& stopwatch) {
    double time = 0, last = best;
    // Stretches double, so that the clock costs little. The last one counts, half of the round: the
    // processor's prefetcher has adapted by then.
    for (size_t more = least; time < length && run.more(); more += more) {
      const size_t from = run.count();
      const double stretch = stopwatch([&] { go_on(from + more); });
      time += stretch;
      if (const size_t done = run.count() - from; done > 0)
        last = stretch / static_cast<double>(done);
    }
    spent += time;
    best = std::min(best, last);
  }
};

// Returns the number of strands for which the machine has enough loads in flight.
inline size_t enough_strands(const interleave_options& options, const memory_profile& memory) {
  const size_t at_once = std::max(options.at_once, size_t{1});
  return (memory.parallel + at_once - 1) / at_once;
}

// Returns `at_once` for a strand that prefetches so many bytes at an address. The processor's own
// prefetcher fetches most adjacent lines.
constexpr size_t addresses_of(size_t bytes) {
  return std::clamp(bytes / (4 * cache_line), size_t{1}, most_lines / 4);
}

// Runs one trial, and then the better form until the next trial. `width` is that of the strands.
template <class Turns, class Stopwatch>
void try_both(Turns& run, size_t width, bool is_large, Stopwatch& stopwatch) {
  constexpr size_t all = ~size_t{0};
  const size_t least = std::min(width, trial_strands);
  trial plain, interleaved;
  double length = trial_shortest, lost = 0, worse = trial_worst;
  for (size_t time = 0; time < trial_rounds && run.more(); ++time) {
    plain.round(run, 1, length, [&](size_t count) { run.plain(count); }, stopwatch);
    // The predicted time of the rest.
    const size_t from = run.count(), items = run.left();
    const double left = plain.best * static_cast<double>(items);
    const bool affordable =
        lost + (worse - 1) * plain.best * static_cast<double>(least) < trial_loss * left;
    if (time == 0 && (left < shortest_with_trial || !affordable))
      return is_large ? run.interleave(width, all) : run.plain(all);
    if (!affordable) break;
    length = std::clamp(trial_part * left, trial_shortest, trial_longest);
    const double before = interleaved.spent;
    interleaved.round(
        run, least, length, [&](size_t count) { run.interleave(least, count); }, stopwatch);
    lost += std::max(
        0.0, interleaved.spent - before - plain.best * static_cast<double>(run.count() - from));
    worse = std::max(1.0, interleaved.best / plain.best);
    if (time > 0 && std::max(worse, plain.best / interleaved.best) > clear_difference) break;
  }
  const bool pays = interleaved.best < trial_margin * plain.best;
  const double best = (pays ? interleaved : plain).best;
  const auto part =
      static_cast<size_t>(trial_distance * (plain.spent + interleaved.spent) / best / trial_parts) +
      1;
  double time = 0;
  for (size_t each = 0; each < trial_parts && run.more() &&
                        time <= clear_difference * best * static_cast<double>(part);
       ++each) {
    const size_t until = run.count() + part;
    time = stopwatch([&] { pays ? run.interleave(width, until) : run.plain(until); });
  }
}

template <class Turns>
void choose_width(Turns& run, const interleave_options& options) {
  if constexpr (!Turns::has_plain_form) {
    run.interleave(enough_strands(options, machine_memory()), ~size_t{0});
  } else {
    if (stays_plain(options)) return run.plain(~size_t{0});
    const memory_profile& memory = machine_memory();
    steady_stopwatch stopwatch;
    while (run.more())
      try_both(run, enough_strands(options, memory), options.bytes > memory.last_cache, stopwatch);
  }
}

}  // namespace corank::detail
