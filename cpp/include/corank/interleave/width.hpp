// Choosing the width: `automatic`.
//
// What fits into the second cache waits so little that a switch costs more. For the rest the
// machine's memory says how many strands are enough, and a trial says whether they pay: a few items
// are completed in the plain form and a few interleaved, in turn; the better form goes on, until
// the next trial. So data in order, which the processor's own prefetcher brings, stays in the plain
// form. No item is done twice. A run that is too short for a trial goes by the size of its data.
//
// What a trial may lose is bounded: with a strand form that takes up to `trial_worst` times as long
// as the plain one, a run takes at most 1/0.97 of the plain form's time.
#pragma once

#include "../prefetch.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace corank::detail {

// A trial has two rounds of each form, and more, up to this number, while the difference is not
// clear.
inline constexpr size_t trial_rounds = 4;
inline constexpr double clear_difference = 1.5;
// A round takes this part of what is left of the run, within limits in nanoseconds, or as long as
// one stretch of the least number of items.
inline constexpr double trial_part = 0.005;
inline constexpr double trial_shortest = 8'000;
inline constexpr double trial_longest = 20'000;
// Strands in a trial: enough to tell.
inline constexpr size_t trial_strands = 8;
// How many times as long as the plain form the other one may take before that is known, and what a
// trial may lose by it, as a part of what is left.
inline constexpr double trial_worst = 2.5;
inline constexpr double trial_loss = 0.02;
// Until the next trial so many times its time passes, in so many parts: if one takes clearly longer
// than the trial said, other data has come, and the next trial at once.
inline constexpr double trial_distance = 100;
inline constexpr size_t trial_parts = 8;
// A run that takes less than this in the plain form has no trial.
inline constexpr double shortest_with_trial = 1e6;
// Interleaving must be better by this factor.
inline constexpr double trial_margin = 0.9;

// Whether data of so many bytes, 0 if nobody knows, is worth no thought.
inline bool stays_plain(const interleave_options& options) {
  return options.width == automatic && options.bytes != 0 && options.bytes <= second_cache();
}

// Nanoseconds of something, by the steady clock.
struct steady_stopwatch {
  template <class Something>
  double operator()(Something&& something) const {
    return nanoseconds(something);
  }
};

// What a form takes: nanoseconds for each item, and in all.
struct trial {
  double best = 1e300;
  double spent = 0;

  // One round of so many nanoseconds: `go_on(count)` completes items until `count` are.
  template <class Turns, class Form, class Stopwatch>
  void round(const Turns& run, size_t least, double length, Form&& go_on, Stopwatch& stopwatch) {
    double time = 0, last = best;
    // More and more at a time, so that the clock costs little. The last stretch counts, which is
    // half of the round: before it the processor's prefetcher finds its way.
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

// As many strands as the machine has loads under way.
inline size_t enough_strands(const interleave_options& options, const memory_profile& memory) {
  const size_t at_once = std::max(options.at_once, size_t{1});
  return (memory.parallel + at_once - 1) / at_once;
}

// As `at_once`, for who asks for so many bytes at an address: of lines that are neighbours the
// processor's prefetcher brings most by itself.
constexpr size_t addresses_of(size_t bytes) {
  return std::clamp(bytes / (4 * cache_line), size_t{1}, most_lines / 4);
}

// One trial, and what goes on until the next one. `width`: of the strands, when they go on.
template <class Turns, class Stopwatch>
void try_both(Turns& run, size_t width, bool is_large, Stopwatch& stopwatch) {
  constexpr size_t all = ~size_t{0};
  const size_t least = std::min(width, trial_strands);
  trial plain, interleaved;
  double length = trial_shortest, lost = 0, worse = trial_worst;
  for (size_t time = 0; time < trial_rounds && run.more(); ++time) {
    plain.round(run, 1, length, [&](size_t count) { run.plain(count); }, stopwatch);
    // What is left would take so long.
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
