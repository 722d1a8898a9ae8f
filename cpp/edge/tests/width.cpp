// The choice of a form and its trials, on a clock that the tests advance. So the loss of a run by
// trials is exact.
#include <corank/interleave/width.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace {

using corank::detail::shortest_with_trial;
using corank::detail::trial_worst;
using corank::detail::try_both;

// The limit on a run's time, as a multiple of the plain form's.
constexpr double bound = 1 / 0.97;
constexpr size_t width = 48;

// Items that take a time in each form. A stretch of interleaved ones has a cost of its own, for
// making its lanes.
class simulated_run {
 public:
  using cost = std::function<double(size_t item)>;

  simulated_run(size_t items, cost plain, cost interleaved)
      : items_(items), plain_(std::move(plain)), interleaved_(std::move(interleaved)) {}

  [[nodiscard]] bool more() const { return done_ < items_; }
  [[nodiscard]] size_t count() const { return done_; }
  [[nodiscard]] size_t left() const { return items_ - done_; }
  void plain(size_t until) { spend(until, plain_, in_plain); }
  void interleave(size_t strands, size_t until) {
    EXPECT_LE(strands, width);
    now_ += 300;
    spend(until, interleaved_, in_turn);
  }

  // Runs to the end. Returns the time as a multiple of the time of all items in the plain form.
  double loss(bool is_large = true) {
    const auto stopwatch = [this](auto&& something) {
      const double begin = now_;
      something();
      now_ += 30;
      return now_ - begin;
    };
    while (more()) try_both(*this, width, is_large, stopwatch);
    double expected = 0;
    for (size_t item = 0; item < items_; ++item) expected += plain_(item);
    EXPECT_EQ(in_plain + in_turn, items_);
    return now_ / expected;
  }

  // The items that were completed in each form.
  size_t in_plain = 0, in_turn = 0;

 private:
  void spend(size_t until, const cost& of, size_t& form) {
    for (; done_ < until && done_ < items_; ++done_, ++form) now_ += of(done_);
  }

  size_t items_, done_ = 0;
  cost plain_, interleaved_;
  double now_ = 0;
};

simulated_run::cost always(double time) {
  return [time](size_t) { return time; };
}

}  // namespace

TEST(width, never_loses_more_than_is_allowed) {
  for (const double item : {5.0, 40.0, 300.0, 2'500.0, 20'000.0, 150'000.0})
    for (const double length : {1.0, 1.1, 2.0, 5.0, 30.0, 300.0})
      for (const double ratio :
           {0.05, 0.5, 0.88, 0.91, 1.0, 1.05, 1.3, 1.49, 1.6, 2.0, trial_worst}) {
        const auto items = static_cast<size_t>(length * shortest_with_trial / item);
        if (items == 0 || items > 500'000) continue;
        simulated_run run(items, always(item), always(ratio * item));
        // Without a trial the size decides. Data that fits into the last cache stays in the plain
        // form.
        EXPECT_LE(run.loss(false), bound) << item << " ns, " << length << " ms, " << ratio;
      }
}

TEST(width, goes_on_with_what_is_better) {
  for (const double ratio : {0.1, 0.5, 0.8}) {
    simulated_run run(100'000, always(300), always(ratio * 300));
    EXPECT_LT(run.loss(), ratio + 0.03) << ratio;
    EXPECT_GT(run.in_turn, 95'000u) << ratio;
  }
  for (const double ratio : {0.95, 1.2, 2.0}) {
    simulated_run run(100'000, always(300), always(ratio * 300));
    EXPECT_LE(run.loss(), bound) << ratio;
    EXPECT_GT(run.in_plain, 95'000u) << ratio;
  }
}

TEST(width, a_short_run_goes_by_its_size) {
  // Less than is worth a trial, and fewer items than a trial may spoil.
  for (const auto& [items, item] : {std::pair<size_t, double>{1'000, 500}, {500, 1e5}}) {
    for (const bool is_large : {false, true}) {
      simulated_run run(items, always(item), always(3 * item));
      run.loss(is_large);
      EXPECT_EQ(run.in_turn > 0, is_large) << items;
      if (is_large) {
        EXPECT_GT(run.in_turn, items * 8 / 10);
      }
    }
  }
}

TEST(width, a_disturbed_trial_is_made_good) {
  // During a disturbance of 50 µs anywhere in the first millisecond, items take ten times as long.
  for (size_t from = 0; from < 3'000; from += 37) {
    const auto disturbed = [from](double time) {
      return [=](size_t item) { return item >= from && item < from + 17 ? 10 * time : time; };
    };
    simulated_run slower(300'000, disturbed(300), disturbed(450));
    EXPECT_LE(slower.loss(), bound) << from;
    simulated_run faster(300'000, disturbed(300), disturbed(60));
    EXPECT_LT(faster.loss(), 0.3) << from;
  }
}

TEST(width, follows_data_that_changes) {
  // First in order and then scattered, and the reverse.
  for (const bool begins_in_order : {true, false}) {
    const auto in_order = [=](size_t item) { return (item < 500'000) == begins_in_order; };
    simulated_run run(
        1'000'000, [=](size_t item) { return in_order(item) ? 20.0 : 300.0; },
        [=](size_t item) { return in_order(item) ? 40.0 : 40.0; });
    const double best = (20.0 + 40.0) / (20.0 + 300.0);
    EXPECT_LT(run.loss(), 1.25 * best) << begins_in_order;
  }
}

TEST(width, rows_of_many_lines_need_fewer_strands) {
  using corank::detail::addresses_of;
  using corank::detail::enough_strands;
  const corank::memory_profile memory{.first_cache = 0,
                                      .second_cache = 0,
                                      .last_cache = 0,
                                      .latency = 100,
                                      .parallel = 48,
                                      .interval = 2};
  EXPECT_EQ(addresses_of(1), 1u);
  EXPECT_EQ(addresses_of(64), 1u);
  EXPECT_EQ(addresses_of(512), 2u);
  EXPECT_EQ(addresses_of(1 << 20), corank::most_lines / 4);
  EXPECT_EQ(enough_strands({}, memory), 48u);
  EXPECT_EQ(enough_strands({.at_once = 5}, memory), 10u);
}
