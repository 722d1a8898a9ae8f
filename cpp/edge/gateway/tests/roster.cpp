// The gateway without sockets: datagrams, windows, silence, reloads.
#include "roster.hpp"

#include "made.hpp"

#include <gtest/gtest.h>

#include <random>

using namespace gateway;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::datagram;
using test::give;
using test::secret;
using test::table;

namespace {

constexpr rules of_three{
    .by = model::coroutine, .window = 3, .alarm_after = 2, .silent_after = seconds(5)};
const std::vector<int16_t> calm{0, 0}, loud{100, 100};

}  // namespace

TEST(Roster, AWindowBecomesOneReport) {
  roster of(table(2, 2), secret, of_three, {});
  EXPECT_EQ(give(of, datagram(1, 0, calm)), fate::accepted);
  EXPECT_EQ(give(of, datagram(1, 1, loud)), fate::accepted);
  EXPECT_FALSE(of.due());
  EXPECT_TRUE(of.evaluate().empty());
  EXPECT_EQ(give(of, datagram(1, 2, calm)), fate::accepted);
  ASSERT_TRUE(of.due());
  const std::vector<report> reports = of.evaluate();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].sensor, 1u);
  EXPECT_EQ(reports[0].status, condition::sound);
  EXPECT_EQ(reports[0].measurements, 3u);
  EXPECT_EQ(reports[0].damaged, 1u);
  EXPECT_EQ(reports[0].time, 1002u);
  EXPECT_EQ(of.count().of(condition::sound), 1u);
  EXPECT_EQ(of.count().of(condition::waiting), 1u);
  EXPECT_FALSE(of.due());
}

TEST(Roster, ReportsComeInTheOrderOfTheirWindows) {
  roster of(table(3, 2), secret, of_three, {});
  for (uint32_t number = 0; number < 3; ++number)
    for (const uint32_t sensor : {3, 1, 2})
      give(of, datagram(sensor, number, sensor == 1 ? loud : calm));
  const std::vector<report> reports = of.evaluate();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].sensor, 3u);
  EXPECT_EQ(reports[1].sensor, 1u);
  EXPECT_EQ(reports[1].status, condition::damaged);
  EXPECT_EQ(reports[2].sensor, 2u);
  EXPECT_EQ(of.count().measurements, 9u);
  EXPECT_EQ(of.count().damaged, 3u);
}

// The reports do not depend on how often they are requested.
TEST(Roster, ABatchMayHoldSeveralWindowsOfASensor) {
  roster of(table(1, 2), secret, of_three, {});
  for (uint32_t number = 0; number < 8; ++number)
    give(of, datagram(1, number, number >= 3 ? loud : calm));
  std::vector<report> reports = of.evaluate();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].damaged, 0u);
  EXPECT_EQ(reports[0].measurements, 3u);
  EXPECT_EQ(reports[1].damaged, 3u);
  EXPECT_FALSE(of.due());
  give(of, datagram(1, 8, calm));
  reports = of.evaluate();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].damaged, 2u);
}

TEST(Roster, EachDefectOfADatagramHasItsCounter) {
  roster of(table(2, 2), secret, of_three, {});
  std::vector<std::byte> whole = datagram(1, 0, calm);
  std::vector<std::byte> shorter(whole.begin(), whole.end() - 1), longer = whole, huge = whole,
                                                                  other = whole, forged = whole;
  longer.push_back({});
  huge.resize(60000);
  other[0] = {};
  forged[33] ^= std::byte{1};
  EXPECT_EQ(give(of, {}), fate::truncated);
  EXPECT_EQ(give(of, shorter), fate::truncated);
  EXPECT_EQ(give(of, longer), fate::oversized);
  EXPECT_EQ(give(of, huge), fate::oversized);
  EXPECT_EQ(give(of, datagram(1, 0, std::vector<int16_t>(2048))), fate::oversized);
  EXPECT_EQ(give(of, other), fate::malformed);
  EXPECT_EQ(give(of, datagram(3, 0, calm)), fate::unknown);
  EXPECT_EQ(give(of, forged), fate::forged);
  EXPECT_EQ(give(of, datagram(1, 0, {1})), fate::mismatched);
  // No refused datagram has left a trace.
  EXPECT_EQ(give(of, whole), fate::accepted);
  EXPECT_EQ(give(of, whole), fate::duplicated);
  EXPECT_EQ(of.count().lost + of.count().missing, 0u);
  EXPECT_EQ(of.count().of(fate::accepted), 1u);
}

// A stolen sensor or recorded datagrams cannot forge another sensor's status.
TEST(Roster, AnotherSensorsKeyIsNoKey) {
  roster of(table(2, 2), secret, of_three, {});
  std::vector<std::byte> made = datagram(1, 0, loud);
  sign(made, key_of_sensor(secret, 2));
  EXPECT_EQ(give(of, made), fate::forged);
}

TEST(Roster, LateDatagramsCountAndStaleOnesDoNot) {
  roster of(table(1, 2), secret,
            {.by = model::sequential, .window = 200, .alarm_after = 1, .silent_after = seconds(5)},
            {});
  give(of, datagram(1, 0, calm));
  give(of, datagram(1, 2, calm));
  EXPECT_EQ(give(of, datagram(1, 1, calm)), fate::late);
  give(of, datagram(1, 100, calm));
  EXPECT_EQ(give(of, datagram(1, 3, calm)), fate::stale);
  const totals all = of.count();
  EXPECT_EQ(all.of(fate::late), 1u);
  EXPECT_EQ(all.lost + all.missing, 97u);
}

TEST(Roster, ARestartedSensorIsAccepted) {
  roster of(table(1, 2), secret, of_three, {});
  give(of, datagram(1, 500, calm, 10));
  give(of, datagram(1, 502, calm, 10));
  EXPECT_EQ(give(of, datagram(1, 0, calm, 20)), fate::accepted);
  EXPECT_EQ(of.count().lost, 1u);
  EXPECT_EQ(of.count().missing, 0u);
  // An attacker has recorded the first session.
  EXPECT_EQ(give(of, datagram(1, 501, loud, 10)), fate::stale);
  EXPECT_EQ(give(of, datagram(1, 503, loud, 10)), fate::stale);
  EXPECT_EQ(of.evaluate()[0].damaged, 0u);
}

// A clock that leapt once, or one wrong bit under a valid tag.
TEST(Roster, OneDatagramOfAFarSessionDoesNotMuteItsSensor) {
  constexpr clock_time clock = 2'000'000'000'000'000, minute = 60'000'000;
  const instant begin{};
  roster of(table(1, 2), secret, of_three, begin);
  EXPECT_EQ(give(of, datagram(1, 0, calm, clock - minute), begin, clock), fate::accepted);
  // Centuries ahead: the session never begins.
  EXPECT_EQ(give(of, datagram(1, 0, calm, ~uint64_t{0}), begin, clock), fate::ahead);
  EXPECT_EQ(give(of, datagram(1, 1, calm, clock - minute), begin, clock), fate::accepted);
  // A little ahead: the session is given up after the silence that follows.
  EXPECT_EQ(give(of, datagram(1, 0, calm, clock + minute), begin, clock), fate::accepted);
  EXPECT_EQ(give(of, datagram(1, 2, calm, clock - minute), begin + seconds(4), clock), fate::stale);
  EXPECT_EQ(give(of, datagram(1, 3, calm, clock - minute), begin + seconds(5), clock),
            fate::accepted);
  EXPECT_EQ(give(of, datagram(1, 4, calm, clock - minute), begin + seconds(5), clock),
            fate::accepted);
  EXPECT_EQ(of.count().of(fate::ahead), 1u);
}

// The time of the sensor's last datagram counts.
TEST(Roster, OneWrongTimeIsForgottenWithTheNextDatagram) {
  roster of(table(1, 2), secret, of_three, {});
  std::vector<std::byte> far = datagram(1, 0, calm);
  std::memset(far.data() + 24, 0xff, 8);
  sign(far, key_of_sensor(secret, 1));
  EXPECT_EQ(give(of, far), fate::accepted);
  EXPECT_EQ(give(of, datagram(1, 1, calm)), fate::accepted);
  EXPECT_EQ(give(of, datagram(1, 2, calm)), fate::accepted);
  EXPECT_EQ(of.evaluate().at(0).time, 1002u);
}

TEST(Roster, ASilentSensorIsReportedOnce) {
  const instant begin{};
  roster of(table(2, 2), secret, of_three, begin);
  give(of, datagram(1, 0, calm), begin + seconds(3));
  EXPECT_TRUE(of.check_silence(begin + seconds(5) - milliseconds(1)).empty());
  std::vector<report> reports = of.check_silence(begin + seconds(5));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].sensor, 2u);
  EXPECT_EQ(reports[0].status, condition::silent);
  EXPECT_EQ(reports[0].time, 0u);
  reports = of.check_silence(begin + seconds(8));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].sensor, 1u);
  EXPECT_EQ(reports[0].measurements, 1u);
  EXPECT_TRUE(of.check_silence(begin + seconds(100)).empty());
  EXPECT_EQ(of.count().of(condition::silent), 2u);
  // The sensor comes back, and falls silent again.
  give(of, datagram(1, 1, calm), begin + seconds(101));
  EXPECT_EQ(of.count().of(condition::waiting), 1u);
  EXPECT_EQ(of.check_silence(begin + seconds(106)).size(), 1u);
}

// Only datagrams with the right key count, so others do not hide that a sensor is gone.
TEST(Roster, ForgedDatagramsDoNotBreakTheSilence) {
  roster of(table(1, 2), secret, of_three, {});
  std::vector<std::byte> forged = datagram(1, 0, calm);
  forged.back() ^= std::byte{1};
  give(of, forged, instant{} + seconds(4));
  EXPECT_EQ(of.check_silence(instant{} + seconds(5)).size(), 1u);
}

TEST(Roster, AReloadKeepsWindowsAndCounts) {
  roster of(table(2, 2), secret, of_three, {});
  give(of, datagram(1, 0, loud));
  give(of, datagram(1, 2, loud));
  give(of, datagram(2, 0, loud));
  // Sensor 2 is gone, 3 is new, and loud spectra are calm now.
  of.reload(std::make_shared<sensor_table>(
                std::vector<machine>{{.sensor = 3, .threshold = 0, .weights = {1, 1}},
                                     {.sensor = 1, .threshold = 10000, .weights = {1, 1}}}),
            secret, of_three, {});
  EXPECT_EQ(give(of, datagram(2, 1, loud)), fate::unknown);
  EXPECT_EQ(give(of, datagram(1, 2, loud)), fate::duplicated);
  EXPECT_EQ(give(of, datagram(1, 3, loud)), fate::accepted);
  const std::vector<report> reports = of.evaluate();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].sensor, 1u);
  EXPECT_EQ(reports[0].status, condition::sound);
  EXPECT_EQ(reports[0].measurements, 3u);
  EXPECT_EQ(reports[0].received, 3u);
  EXPECT_EQ(of.count().missing, 1u);
  EXPECT_EQ(give(of, datagram(3, 0, loud)), fate::accepted);
}

TEST(Roster, AReloadMayChangeTheNumberOfBins) {
  roster of(table(2, 2), secret, of_three, {});
  give(of, datagram(1, 0, loud));
  give(of, datagram(1, 5, loud));
  of.reload(table(1, 4), secret, of_three, {});
  EXPECT_EQ(give(of, datagram(1, 6, loud)), fate::mismatched);
  EXPECT_EQ(give(of, datagram(1, 7, {1, 2, 3, 4})), fate::accepted);
  EXPECT_EQ(of.count().of(fate::accepted), 3u);
  EXPECT_EQ(of.count().missing, 5u);
}

TEST(Roster, AReloadMayChangeTheKey) {
  roster of(table(1, 2), secret, of_three, {});
  give(of, datagram(1, 0, calm));
  key other = secret;
  other[0] ^= 1;
  of.reload(table(1, 2), other, of_three, {});
  EXPECT_EQ(give(of, datagram(1, 1, calm)), fate::forged);
}

// Each datagram has one fate, whatever it contains. The numbers add up, and both models report the
// same.
TEST(Roster, EverythingIsAccountedFor) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 chance(seed);
    roster one(table(4, 3), secret,
               {.by = model::sequential, .window = 5, .alarm_after = 1, .silent_after = seconds(1)},
               {});
    roster other(
        table(4, 3), secret,
        {.by = model::coroutine, .window = 5, .alarm_after = 1, .silent_after = seconds(1)}, {});
    uint64_t given = 0, reported = 0;
    uint32_t next[5]{};
    for (int step = 0; step < 2000; ++step) {
      const auto sensor = static_cast<uint32_t>(1 + chance() % 5);
      uint32_t& number = next[sensor - 1];
      number += chance() % 4 == 0 ? 2 : 1;
      std::vector<std::byte> made = datagram(
          sensor, chance() % 5 == 0 ? number - std::min<uint32_t>(number, chance() % 90) : number,
          {static_cast<int16_t>(chance() % 5), static_cast<int16_t>(chance() % 3), -1},
          1 + step / 700);
      if (chance() % 10 == 0) made[chance() % made.size()] ^= std::byte(1 << chance() % 8);
      if (chance() % 10 == 0) made.resize(chance() % (2 * made.size()));
      ASSERT_EQ(give(one, made), give(other, made));
      ++given;
      if (chance() % 3 == 0) {
        const std::vector<report> reports = one.evaluate(), same = other.evaluate();
        ASSERT_EQ(reports.size(), same.size());
        for (size_t at = 0; at < reports.size(); ++at) {
          ASSERT_EQ(reports[at].sensor, same[at].sensor);
          ASSERT_EQ(reports[at].status, same[at].status);
          ASSERT_EQ(reports[at].damaged, same[at].damaged);
          reported += reports[at].measurements;
        }
      }
    }
    const totals all = one.count();
    uint64_t sum = 0;
    for (const uint64_t each : all.datagrams) sum += each;
    EXPECT_EQ(sum, given);
    EXPECT_EQ(all.measurements, reported);
    EXPECT_GT(reported, 0u);
    EXPECT_GE(all.of(fate::accepted) + all.of(fate::late), reported);
  }
}
