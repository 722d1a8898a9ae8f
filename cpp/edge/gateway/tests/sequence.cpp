// Sequence numbers against a model that remembers everything.
#include "sequence.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace gateway;

TEST(Sequence, NumbersInOrderAreAccepted) {
  sequence_window window;
  for (uint32_t number = 5; number < 500; ++number)
    EXPECT_EQ(window.see(number), arrival::in_order);
  EXPECT_EQ(window.lost() + window.missing(), 0u);
}

TEST(Sequence, WhatIsMissingIsLostOnceItIsOutOfTheWindow) {
  sequence_window window;
  window.see(0);
  EXPECT_EQ(window.see(3), arrival::in_order);
  EXPECT_EQ(window.missing(), 2u);
  EXPECT_EQ(window.lost(), 0u);
  EXPECT_EQ(window.see(1), arrival::late);
  EXPECT_EQ(window.see(1), arrival::duplicate);
  EXPECT_EQ(window.see(0), arrival::duplicate);
  EXPECT_EQ(window.missing(), 1u);
  EXPECT_EQ(window.see(65), arrival::in_order);
  EXPECT_EQ(window.missing() + window.lost(), 1u + 61u);
  EXPECT_EQ(window.lost(), 0u);
  EXPECT_EQ(window.see(66), arrival::in_order);
  EXPECT_EQ(window.lost(), 1u);
  EXPECT_EQ(window.see(2), arrival::stale);
}

TEST(Sequence, WhatCameBeforeTheFirstOneIsNotMissed) {
  sequence_window window;
  window.see(10);
  EXPECT_EQ(window.see(9), arrival::stale);
  EXPECT_EQ(window.missing() + window.lost(), 0u);
}

TEST(Sequence, AGreatLeapCountsTheSkippedAsLost) {
  sequence_window window;
  window.see(0);
  window.see(0xffffffff);
  EXPECT_EQ(window.lost() + window.missing(), 0xfffffffeu);
  EXPECT_EQ(window.missing(), 63u);
  EXPECT_EQ(window.see(0), arrival::stale);
}

TEST(Sequence, AgreesWithAModelThatRemembersEverything) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 chance(seed);
    sequence_window window;
    std::set<uint32_t> seen;
    const auto begin = static_cast<uint32_t>(chance() % 1000);
    uint32_t last = begin;
    for (int step = 0; step < 2000; ++step) {
      const uint32_t by = static_cast<uint32_t>(chance() % (chance() % 50 == 0 ? 300 : 5));
      const bool ahead = chance() % 3 != 0;
      const uint32_t number = seen.empty() ? begin
                              : ahead      ? last + by
                                      : last - std::min(last, static_cast<uint32_t>(chance() % 80));
      arrival expected = arrival::in_order;
      if (!seen.empty() && number <= last) {
        if (number < begin || last - number >= sequence_window::memory)
          expected = arrival::stale;
        else
          expected = seen.contains(number) ? arrival::duplicate : arrival::late;
      }
      ASSERT_EQ(window.see(number), expected) << seed << " " << step;
      if (expected == arrival::in_order || expected == arrival::late) seen.insert(number);
      last = std::max(last, number);
      uint64_t missing = 0;
      for (uint32_t each = last - std::min(last - begin, sequence_window::memory - 1); each < last;
           ++each)
        missing += !seen.contains(each);
      ASSERT_EQ(window.missing(), missing) << seed << " " << step;
      ASSERT_EQ(seen.size() + window.lost() + window.missing(), uint64_t{last} - begin + 1)
          << seed << " " << step;
    }
  }
}
