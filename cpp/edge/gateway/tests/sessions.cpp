// Sessions of one sensor against a model that remembers everything.
#include "sessions.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

using namespace gateway;

namespace {

constexpr uint64_t now = 1000;

}  // namespace

TEST(Sessions, ALaterSessionReplacesTheEarlierOne) {
  session_history of;
  EXPECT_EQ(of.see(10, 0, now, false), arrival::in_order);
  EXPECT_EQ(of.see(20, 0, now, false), arrival::in_order);
  EXPECT_EQ(of.see(10, 1, now, false), arrival::stale);
  EXPECT_EQ(of.see(15, 0, now, false), arrival::stale);
  EXPECT_EQ(of.see(20, 1, now, false), arrival::in_order);
}

TEST(Sessions, ASessionAheadOfTheClockDoesNotBegin) {
  session_history of;
  EXPECT_EQ(of.see(10, 0, now, false), arrival::in_order);
  EXPECT_EQ(of.see(now + 1, 0, now, false), arrival::ahead);
  EXPECT_EQ(of.see(~uint64_t{0}, 0, now, false), arrival::ahead);
  EXPECT_EQ(of.see(10, 1, now, false), arrival::in_order);
  EXPECT_EQ(of.see(now + 1, 0, now + 1, false), arrival::in_order);
}

// One datagram of a session that is not the sensor's. After a silence the sensor is accepted again,
// and also after its next start. No earlier datagram is accepted twice.
TEST(Sessions, AWrongSessionEndsAfterASilence) {
  session_history of;
  for (uint32_t number = 0; number < 100; ++number) of.see(10, number, now, false);
  EXPECT_EQ(of.see(900, 5, now, false), arrival::in_order);
  EXPECT_EQ(of.see(10, 100, now, false), arrival::stale);
  EXPECT_EQ(of.see(10, 99, now, true), arrival::stale);
  EXPECT_EQ(of.see(10, 101, now, true), arrival::in_order);
  EXPECT_EQ(of.see(10, 100, now, false), arrival::late);
  EXPECT_EQ(of.see(900, 5, now, false), arrival::stale);
  EXPECT_EQ(of.see(900, 5, now, true), arrival::stale);
  EXPECT_EQ(of.see(20, 0, now, false), arrival::in_order);
  EXPECT_EQ(of.see(900, 5, now, true), arrival::stale);
}

TEST(Sessions, ANumberFarAheadCountsAfterASilenceAlone) {
  session_history of;
  EXPECT_EQ(of.see(10, 5, now, false), arrival::in_order);
  EXPECT_EQ(of.see(10, 0xffffffff, now, false), arrival::ahead);
  EXPECT_EQ(of.see(10, 6, now, false), arrival::in_order);
  EXPECT_EQ(of.see(10, 6 + sequence_window::far, now, false), arrival::in_order);
  EXPECT_EQ(of.see(10, 1'000'000, now, true), arrival::in_order);
  EXPECT_EQ(of.lost() + of.missing(), 1'000'000u - 5 + 1 - 4);
}

TEST(Sessions, ALongSessionIsKeptForGood) {
  session_history of;
  of.see(10, 0, now, false);
  for (uint32_t number = 0; number < sequence_window::memory; ++number)
    EXPECT_EQ(of.see(20, number, now, false), arrival::in_order);
  EXPECT_EQ(of.see(10, 1, now, true), arrival::stale);
  EXPECT_EQ(of.lost() + of.missing(), 0u);
}

TEST(Sessions, NoDatagramIsAcceptedTwice) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 chance(seed);
    session_history of;
    std::set<std::pair<uint64_t, uint32_t>> accepted;
    std::map<uint64_t, uint32_t> next;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t session = chance() % 4 == 0 ? chance() % 40 : 10 * (step / 800) + chance() % 3;
      uint32_t& number = next[session];
      const uint32_t sent =
          chance() % 3 == 0 ? static_cast<uint32_t>(chance() % (number + 3)) : ++number;
      const arrival came =
          of.see(session, sent, 10 + static_cast<uint64_t>(step) / 100, chance() % 8 == 0);
      if (came != arrival::in_order && came != arrival::late) continue;
      ASSERT_TRUE(accepted.insert({session, sent}).second) << seed << " " << step;
    }
    ASSERT_GT(accepted.size(), 50u) << seed;
  }
}
