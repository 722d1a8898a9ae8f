// The interleaver: whatever the width, a run gives the results of a loop over the items. The
// strands take turns, and a run allocates once.
#include "allocations.hpp"

#include <corank/interleave.hpp>
#include <corank/task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <numeric>
#include <random>
#include <ranges>
#include <sstream>
#include <string>

using corank::either;
using corank::interleave;
using corank::interleave_options;
using corank::lane;
using corank::prefetch;
using corank::strand;

namespace {

// The actions of a test's strands, in order.
std::string said;

std::string take_said() { return std::exchange(said, {}); }

// Appends its name to `said` when it is destroyed.
struct guard {
  explicit guard(char letter) : name(letter) {}
  guard(const guard&) = delete;
  ~guard() { said += name; }
  char name;
};

const std::vector<size_t> widths{1, 2, 3, 7, 8, 16, 64, 1000};

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Waits `times` times.
strand<int> twice_after(lane&, int number, int times) {
  for (int time = 0; time < times; ++time) co_await prefetch(&number);
  co_return 2 * number;
}

std::vector<int> doubled(int count) {
  std::vector<int> all = numbers(count);
  for (int& each : all) each *= 2;
  return all;
}

}  // namespace

TEST(interleave, outputs_come_in_the_order_of_the_items) {
  for (const size_t width : widths)
    for (const int count : {0, 1, 2, 7, 8, 9, 100}) {
      // Later items wait for less, so that they end before earlier ones.
      auto work = [](lane& here, int number) {
        return twice_after(here, number, (97 - number) % 5 + (number % 3 == 0 ? 0 : 1));
      };
      EXPECT_EQ(interleave(numbers(count), work, {.width = width}), doubled(count));
    }
}

TEST(interleave, strands_take_turns) {
  auto say = [](lane&, char name) -> strand<> {
    for (char step = '1'; step <= '3'; ++step) {
      said += name;
      said += step;
      co_await prefetch(nullptr);
    }
  };
  const std::string items = "abc";
  EXPECT_EQ(interleave(items, say, {.width = 1}), 3u);
  EXPECT_EQ(take_said(), "a1a2a3b1b2b3c1c2c3");
  interleave(items, say, {.width = 2});
  EXPECT_EQ(take_said(), "a1b1a2b2a3b3c1c2c3");
  interleave(items, say, {.width = 3});
  EXPECT_EQ(take_said(), "a1b1c1a2b2c2a3b3c3");
}

TEST(interleave, a_lane_whose_item_has_ended_begins_the_next_one_at_once) {
  auto say = [](lane&, int steps) -> strand<> {
    said += 'b';
    for (int step = 0; step < steps; ++step) {
      co_await prefetch(nullptr);
      said += static_cast<char>('0' + steps);
    }
    said += 'e';
  };
  interleave(std::vector<int>{1, 3, 0, 0, 2}, say, {.width = 2});
  EXPECT_EQ(take_said(), "bb1ebebeb3232e3e");
}

TEST(interleave, results_go_to_the_given_iterator) {
  std::vector<long> out(6, -1);
  EXPECT_EQ(interleave(numbers(5), [](lane& here, int n) { return twice_after(here, n, n); },
                       out.begin(), {.width = 3}),
            5u);
  EXPECT_EQ(out, (std::vector<long>{0, 2, 4, 6, 8, -1}));
}

TEST(interleave, items_come_from_any_range) {
  std::istringstream text("3 1 2");
  auto work = [](lane& here, int n) { return twice_after(here, n, n); };
  EXPECT_EQ(interleave(std::views::istream<int>(text), work, {.width = 2}),
            (std::vector<int>{6, 2, 4}));
  EXPECT_EQ(interleave(std::list<int>{4, 5}, work, {.width = 2}), (std::vector<int>{8, 10}));
  EXPECT_EQ(interleave(std::views::iota(0, 4), work, {.width = 8}), doubled(4));
}

TEST(interleave, items_may_be_changed_through_references) {
  std::vector<int> items = numbers(10);
  auto work = [](lane&, int& item) -> strand<> {
    co_await prefetch(&item);
    item *= 2;
  };
  EXPECT_EQ(interleave(items, work, {.width = 4}), 10u);
  EXPECT_EQ(items, doubled(10));
}

TEST(interleave, outputs_may_be_of_types_that_only_move) {
  auto work = [](lane&, int n) -> strand<std::unique_ptr<int>> {
    co_await prefetch(&n);
    co_return std::make_unique<int>(n);
  };
  const auto outputs = interleave(numbers(20), work, {.width = 6});
  for (int n = 0; n < 20; ++n) EXPECT_EQ(*outputs[static_cast<size_t>(n)], n);
}

namespace {

struct object {
  int factor;
  strand<int> times(lane&, int n) const {
    co_await prefetch(this);
    co_return factor* n;
  }
};

}  // namespace

TEST(interleave, strands_may_be_member_functions_and_lambdas_with_captures) {
  const object two{2};
  EXPECT_EQ(
      interleave(numbers(9), [&](lane& here, int n) { return two.times(here, n); }, {.width = 4}),
      doubled(9));
  int begun = 0;
  auto counts = [&begun](lane&, int n) -> strand<int> {
    ++begun;
    co_await prefetch(&n);
    co_return 2 * n;
  };
  EXPECT_EQ(interleave(numbers(9), counts, {.width = 4}), doubled(9));
  EXPECT_EQ(begun, 9);
}

TEST(interleave, allocates_once_whatever_the_number_of_items) {
  for (const int count : {1, 10, 1000}) {
    const std::vector<int> items = numbers(count);
    std::vector<int> out(items.size());
    const size_t before = test::allocations;
    interleave(items, [](lane& here, int n) { return twice_after(here, n, 2); }, out.begin(),
               {.width = 8});
    EXPECT_EQ(test::allocations - before, 1u);
  }
}

namespace {

strand<int> sum_below(lane& here, int n) {
  if (n == 0) co_return 0;
  co_await prefetch(&n);
  const int rest = co_await sum_below(here, n - 1);
  co_return n + rest;
}

// A strand whose frame fits into no slot that was made for a smaller one.
strand<int> large(lane&, int n, bool wait) {
  volatile char block[1000] = {};
  block[n % 1000] = 1;
  if (wait) co_await prefetch(&n);
  co_return block[n % 1000] * n;
}

// A tree of calls, `depth` deep. Each call may wait before, between and behind the calls that it
// makes.
strand<int> tree_of_calls(lane& here, unsigned shape, int depth) {
  int sum = 1;
  for (unsigned call = 0; call < shape % 3 && depth > 0; ++call) {
    if (shape >> call & 4) co_await prefetch(&sum);
    sum += co_await tree_of_calls(here, shape * 2654435761u + call, depth - 1);
  }
  if (shape & 8) co_await prefetch(&sum);
  co_return sum;
}
int calls_in_tree(unsigned shape, int depth) {
  int sum = 1;
  for (unsigned call = 0; call < shape % 3 && depth > 0; ++call)
    sum += calls_in_tree(shape * 2654435761u + call, depth - 1);
  return sum;
}

strand<int> calls_large(lane& here, int n) {
  const int one = co_await large(here, n, true);
  const int other = co_await large(here, n, false);
  co_return one + other;
}

}  // namespace

TEST(interleave, a_strand_may_call_others) {
  const auto sums = interleave(numbers(30), sum_below, {.width = 5});
  for (int n = 0; n < 30; ++n) EXPECT_EQ(sums[static_cast<size_t>(n)], n * (n + 1) / 2);
}

TEST(interleave, calls_go_on_where_they_waited) {
  const std::vector<int> items = numbers(500);
  std::vector<int> expected;
  for (const int item : items) expected.push_back(calls_in_tree(static_cast<unsigned>(item), 6));
  EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 20);
  for (const size_t width : widths)
    EXPECT_EQ(interleave(items,
                         [](lane& here, int item) {
                           return tree_of_calls(here, static_cast<unsigned>(item), 6);
                         },
                         {.width = width}),
              expected)
        << width;
}

TEST(interleave, frames_that_do_not_fit_are_allocated_once_a_lane) {
  const std::vector<int> items = numbers(500);
  std::vector<int> out(items.size());
  const size_t before = test::allocations, held = test::allocated;
  interleave(items, calls_large, out.begin(), {.width = 8});
  EXPECT_EQ(test::allocations - before, 1u + 8u);
  EXPECT_EQ(test::allocated, held);
  EXPECT_EQ(out, doubled(500));
}

TEST(interleave, frames_may_be_given_back_in_any_order) {
  auto work = [](lane& here, int n) -> strand<int> {
    int sum = 0;
    auto one = std::make_unique<strand<int>>(twice_after(here, n, 1));
    auto other = std::make_unique<strand<int>>(twice_after(here, n, 1));
    sum += co_await *one;
    one.reset();
    sum += co_await twice_after(here, n, 1);
    sum += co_await *other;
    co_return sum / 3;
  };
  EXPECT_EQ(interleave(numbers(50), work, {.width = 4}), doubled(50));
}

TEST(interleave, calls_that_never_wait_need_no_stack) {
  auto work = [](lane& here, int) -> strand<long> {
    long sum = 0;
    for (int call = 0; call < 200'000; ++call)
      sum += co_await twice_after(here, call, call % 1000 == 0 ? 1 : 0);
    co_return sum;
  };
  EXPECT_EQ(interleave(numbers(3), work, {.width = 2}), std::vector<long>(3, 199'999L * 200'000));
}

TEST(interleave, an_exception_of_a_call_goes_to_its_caller) {
  auto fails = [](lane&, bool wait) -> strand<int> {
    if (wait) co_await prefetch(nullptr);
    throw std::string("inner");
    co_return 1;
  };
  auto work = [&](lane& here, int n) -> strand<int> {
    try {
      co_return co_await fails(here, n % 2 == 0);
    } catch (const std::string&) {
      said += 'c';
    }
    co_return 2 * n;
  };
  EXPECT_EQ(interleave(numbers(4), work, {.width = 2}), doubled(4));
  EXPECT_EQ(take_said(), "cccc");
}

TEST(interleave, the_first_item_that_throws_decides) {
  for (const size_t width : widths) {
    std::vector<int> out(20, -1);
    std::vector<int> alive(20);
    // Item 9 throws at once, item 6 later. The loop would have thrown at 6.
    auto work = [&](lane&, int n) -> strand<int> {
      const std::shared_ptr<void> counted(&alive,
                                          [&alive, n](void*) { --alive[static_cast<size_t>(n)]; });
      ++alive[static_cast<size_t>(n)];
      if (n == 9) throw n;
      for (int time = 0; time < 12; ++time) co_await prefetch(&n);
      if (n == 6) throw n;
      co_return n;
    };
    int thrown = -1;
    try {
      interleave(numbers(20), work, out.begin(), {.width = width});
    } catch (int what) {
      thrown = what;
    }
    EXPECT_EQ(thrown, 6);
    for (int n = 0; n < 20; ++n)
      EXPECT_EQ(out[static_cast<size_t>(n)], n < 6 ? n : -1) << "width " << width;
    EXPECT_EQ(alive, std::vector<int>(20));
  }
}

// A strand, or one that it calls, throws or stops anywhere: before its first wait, between two, or
// behind the last.
TEST(interleave, any_step_may_throw_or_stop) {
  constexpr int items = 5, waits = 3;
  for (const bool throws : {true, false})
    for (int which = 0; which < items; ++which)
      for (int step = 0; step <= 2 * waits; ++step)
        for (const size_t width : {1, 2, 3, 8}) {
          int alive = 0;
          const auto act = [&](lane& here, int n, int now) {
            if (n != which || now != step) return;
            if (throws) throw n;
            here.stop();
          };
          const auto inner = [&](lane& here, int n) -> strand<int> {
            const std::shared_ptr<void> counted(&alive,
                                                [](void* count) { --*static_cast<int*>(count); });
            ++alive;
            for (int wait = 0; wait < waits; ++wait) {
              act(here, n, waits + wait);
              co_await prefetch(&n);
            }
            co_return n;
          };
          const auto outer = [&](lane& here, int n) -> strand<int> {
            const std::shared_ptr<void> counted(&alive,
                                                [](void* count) { --*static_cast<int*>(count); });
            ++alive;
            for (int wait = 0; wait < waits; ++wait) {
              act(here, n, wait);
              co_await prefetch(&n);
            }
            const int inside = co_await inner(here, n);
            act(here, n, 2 * waits);
            co_return n + inside;
          };
          std::vector<int> out(items, -1);
          int thrown = -1;
          try {
            EXPECT_EQ(interleave(numbers(items), outer, out.begin(), {.width = width}),
                      static_cast<size_t>(which) + 1);
          } catch (int what) {
            thrown = what;
          }
          EXPECT_EQ(thrown, throws ? which : -1);
          EXPECT_EQ(alive, 0);
          const int done = throws ? which : which + 1;
          for (int n = 0; n < items; ++n)
            EXPECT_EQ(out[static_cast<size_t>(n)], n < done ? 2 * n : -1);
        }
}

TEST(interleave, stop_ends_after_the_item_like_a_break) {
  for (const size_t width : widths) {
    auto work = [](lane& here, int n) -> strand<int> {
      for (int time = 0; time < (n == 7 ? 9 : 2); ++time) co_await prefetch(&n);
      EXPECT_EQ(here.index(), static_cast<size_t>(n));
      // Item 8 also stops, and earlier.
      if (n == 7 || n == 8) here.stop();
      co_return 2 * n;
    };
    EXPECT_EQ(interleave(numbers(20), work, {.width = width}), doubled(8));
  }
}

TEST(interleave, an_item_that_stops_forgives_what_comes_behind_it) {
  auto work = [](lane& here, int n) -> strand<int> {
    for (int time = 0; time < (n == 1 ? 0 : 5); ++time) co_await prefetch(&n);
    if (n == 1) throw n;
    if (n == 0) here.stop();
    co_return 2 * n;
  };
  EXPECT_EQ(interleave(numbers(5), work, {.width = 4}), doubled(1));
}

TEST(interleave, cancelled_strands_are_destroyed_from_the_inside) {
  auto inner = [](lane&) -> strand<> {
    guard held('i');
    for (;;) co_await prefetch(nullptr);
  };
  auto work = [&](lane& here, int n) -> strand<> {
    if (n == 0) {
      co_await prefetch(nullptr);
      co_await prefetch(nullptr);
      here.stop();
      co_return;
    }
    guard held('o');
    co_await inner(here);
  };
  EXPECT_EQ(interleave(numbers(3), work, {.width = 3}), 1u);
  EXPECT_EQ(take_said(), "ioio");
}

TEST(interleave, a_stop_that_is_requested_completes_what_has_begun) {
  for (const size_t width : widths) {
    std::stop_source source;
    size_t begun = 0;
    auto work = [&](lane&, int n) -> strand<int> {
      ++begun;
      co_await prefetch(&n);
      if (n == 5) source.request_stop();
      co_return 2 * n;
    };
    const auto outputs =
        interleave(numbers(2000), work, {.width = width, .stop = source.get_token()});
    EXPECT_EQ(outputs.size(), begun);
    EXPECT_EQ(outputs, doubled(static_cast<int>(begun)));
    EXPECT_LE(begun, 5 + std::min(width, corank::most_lanes));
  }
}

TEST(interleave, a_strand_may_interleave) {
  auto outer = [](lane&, int n) -> strand<int> {
    co_await prefetch(&n);
    int sum = 0;
    for (const int each : interleave(
             numbers(n), [](lane& here, int m) { return twice_after(here, m, 1); }, {.width = 3}))
      sum += each;
    co_await prefetch(&n);
    co_return sum;
  };
  const auto sums = interleave(numbers(12), outer, {.width = 4});
  for (int n = 0; n < 12; ++n) EXPECT_EQ(sums[static_cast<size_t>(n)], n * (n - 1));
}

TEST(interleave, every_allocation_may_fail) {
  const std::vector<int> items = numbers(40);
  std::vector<int> out(items.size());
  const size_t held = test::allocated;
  long failing = 0;
  for (bool failed = true; failed; ++failing) {
    failed = false;
    test::succeeding = failing;
    try {
      interleave(items, calls_large, out.begin(), {.width = 4});
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    test::succeeding = -1;
    EXPECT_EQ(test::allocated, held);
  }
  // One slab, and a large frame for each lane. Then the run succeeds.
  EXPECT_EQ(failing, 1 + 4 + 1);
  EXPECT_EQ(out, doubled(40));
}

// Items wait, throw and stop at random. A loop defines the expected result.
TEST(interleave, a_run_is_like_a_loop) {
  std::mt19937 chance(1);
  for (int time = 0; time < 2000; ++time) {
    struct plan {
      int waits;
      bool calls, throws, stops;
    };
    std::vector<plan> items(chance() % 40);
    for (plan& each : items)
      each = {static_cast<int>(chance() % 6), chance() % 4 == 0, chance() % 50 == 0,
              chance() % 50 == 0};
    auto work = [](lane& here, const plan& item) -> strand<int> {
      int sum = 0;
      for (int wait = 0; wait < item.waits; ++wait) {
        co_await prefetch(&item);
        if (item.calls) sum += co_await twice_after(here, wait, item.waits - wait);
      }
      if (item.throws) throw 1;
      if (item.stops) here.stop();
      co_return sum + item.waits;
    };
    std::vector<int> expected, out(items.size(), -1);
    bool throws = false;
    for (const plan& item : items) {
      throws = item.throws;
      if (throws) break;
      expected.push_back(item.waits + (item.calls ? item.waits * (item.waits - 1) : 0));
      if (item.stops) break;
    }
    bool thrown = false;
    try {
      EXPECT_EQ(interleave(items, work, out.begin(), {.width = 1 + chance() % 20}),
                expected.size());
    } catch (int) {
      thrown = true;
    }
    EXPECT_EQ(thrown, throws);
    EXPECT_EQ(std::vector<int>(out.begin(), out.begin() + static_cast<long>(expected.size())),
              expected);
  }
}

TEST(automatic, small_data_stays_in_the_plain_form) {
  int strands = 0;
  auto work = either{[&](lane& here, int n) { return ++strands, twice_after(here, n, 1); },
                     [](int n) { return 2 * n; }};
  EXPECT_EQ(interleave(numbers(1000), work, {.bytes = 4000}), doubled(1000));
  EXPECT_EQ(strands, 0);
}

TEST(automatic, both_forms_give_the_same_and_each_item_is_done_once) {
  const int count = 20'000;
  std::vector<int> done(count);
  auto work = either{
      [&](lane& here, int n) { return ++done[static_cast<size_t>(n)], twice_after(here, n, 1); },
      [&](int n) { return ++done[static_cast<size_t>(n)], 2 * n; }};
  EXPECT_EQ(interleave(numbers(count), work), doubled(count));
  EXPECT_EQ(done, std::vector<int>(count, 1));
}

TEST(automatic, either_form_may_stop) {
  for (const size_t bytes : {size_t{1}, size_t{1} << 40})
    for (const int last : {0, 100, 5000}) {
      auto work = either{[&](lane& here, int n) -> strand<int> {
                           co_await prefetch(&n);
                           if (n == last) here.stop();
                           co_return 2 * n;
                         },
                         [&](lane& here, int n) {
                           EXPECT_EQ(here.index(), static_cast<size_t>(n));
                           if (n == last) here.stop();
                           return 2 * n;
                         }};
      EXPECT_EQ(interleave(numbers(10'000), work, {.bytes = bytes}), doubled(last + 1));
    }
}

TEST(automatic, a_strand_alone_is_interleaved) {
  EXPECT_EQ(interleave(numbers(100), [](lane& here, int n) { return twice_after(here, n, 1); }),
            doubled(100));
}

TEST(automatic, knows_the_machine) {
  const corank::memory_profile& memory = corank::machine_memory();
  EXPECT_GT(memory.latency, 0);
  EXPECT_GE(memory.parallel, 1u);
  EXPECT_LE(memory.parallel, corank::most_lanes);
  EXPECT_GE(memory.last_cache, memory.second_cache);
  EXPECT_EQ(&memory, &corank::machine_memory());
}

namespace {

corank::slot<400> one_slot, other_slot;

corank::task<> fetches(corank::slot<400>&, char name) {
  for (int time = 0; time < 2; ++time) {
    said += name;
    co_await prefetch(&name);
  }
}

}  // namespace

TEST(prefetch, a_task_yields_to_its_scheduler) {
  auto one = spawn(corank::priority::standard, fetches(one_slot, 'a'));
  auto other = spawn(corank::priority::standard, fetches(other_slot, 'b'));
  corank::executor.run_until_idle();
  EXPECT_EQ(take_said(), "abab");
  one->detach();
  other->detach();
}
