// Bearings, spectra, and faults on purpose.
#include "bearing.hpp"
#include "faults.hpp"
#include "made.hpp"
#include "spectrum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

using namespace gateway;

TEST(Spectrum, AVibrationIsInItsBinWithItsAmplitude) {
  constexpr size_t features = 256;
  spectrum transforms(features);
  ASSERT_EQ(transforms.samples(), 2 * features);
  for (const size_t bin : {5, 100, 250}) {
    std::vector<float> samples(2 * features);
    for (size_t at = 0; at < samples.size(); ++at)
      samples[at] =
          static_cast<float>(0.1 * std::sin(2 * std::numbers::pi * static_cast<double>(bin * at) /
                                            static_cast<double>(samples.size())));
    std::vector<int16_t> bins(features);
    transforms.transform(samples, bins);
    EXPECT_NEAR(bins[bin - 1], -1 * (1 << fraction_bits), 20) << bin;
    // Hann's window spreads the vibration to the neighbours with half the amplitude, and to no
    // other bin.
    EXPECT_NEAR(bins[bin], (-1 + std::log10(0.5)) * (1 << fraction_bits), 20) << bin;
    EXPECT_LT(bins[bin + 5 < features ? bin + 5 : bin - 6], -3.5 * (1 << fraction_bits)) << bin;
  }
}

TEST(Spectrum, BinsAreFixedPoint) {
  EXPECT_EQ(bin_of_amplitude(1), 0);
  EXPECT_EQ(bin_of_amplitude(0.1), -8192);
  EXPECT_EQ(bin_of_amplitude(0), -32768);
  EXPECT_EQ(bin_of_amplitude(1e9), 32767);
}

TEST(Bearing, TheSameNumbersMakeTheSameSignal) {
  std::vector<float> one(512), again(512), other(512);
  bearing(3, 5).measure(damage::inner_race, one);
  bearing(3, 5).measure(damage::inner_race, again);
  bearing(3, 6).measure(damage::inner_race, other);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
  for (const float each : one) {
    EXPECT_LE(std::abs(each), 2);
    EXPECT_EQ(each * 1024, std::round(each * 1024)) << "not one of 4096 steps";
  }
}

// An analyst would check the same: the spectrum of the signal's loudness has a line at the rate of
// the hits.
TEST(Bearing, HitsComeAsOftenAsTheGeometrySays) {
  constexpr size_t features = 8192;
  for (uint32_t number = 1; number <= 5; ++number) {
    EXPECT_GT(bearing(number, 1).hits(damage::inner_race),
              bearing(number, 1).hits(damage::outer_race));
    EXPECT_EQ(bearing(number, 1).hits(damage::none), 0);
    bearing on(number, 1);
    std::vector<float> samples(2 * features);
    std::vector<int16_t> bins(features);
    spectrum transforms(features);
    // There are several measurements, because one may have a fault that is hardly measurable.
    int found = 0;
    for (int time = 0; time < 8; ++time) {
      on.measure(damage::outer_race, samples);
      // The differences of adjacent samples isolate the ringing, and their absolute value is its
      // loudness.
      for (size_t at = 0; at + 1 < samples.size(); ++at)
        samples[at] = std::abs(samples[at + 1] - samples[at]);
      double mean = 0;
      for (const float each : samples) mean += each;
      for (float& each : samples)
        each -= static_cast<float>(mean / static_cast<double>(samples.size()));
      transforms.transform(samples, bins);
      const double hertz_per_bin = samples_per_second / (2 * features);
      const double rate = on.hits(damage::outer_race);
      const auto loudest = [&](double low, double high) {
        return *std::max_element(bins.begin() + static_cast<std::ptrdiff_t>(low / hertz_per_bin),
                                 bins.begin() + static_cast<std::ptrdiff_t>(high / hertz_per_bin));
      };
      found += loudest(0.94 * rate, 1.06 * rate) >
               loudest(1.2 * rate, 1.8 * rate) + (1 << fraction_bits) / 4;
    }
    EXPECT_GE(found, 4) << number;
  }
}

TEST(Faults, Text) {
  EXPECT_EQ(fault_of_text("lost=20").kind, fault::lost);
  EXPECT_EQ(fault_of_text("forged=2").every, 2u);
  for (const char* wrong : {"", "lost", "lost=", "lost=1", "lost=0", "lost=-3", "lost=5x", "gone=5",
                            "=5", "lost=99999999999"})
    EXPECT_THROW(fault_of_text(wrong), std::runtime_error) << wrong;
}

// The counts of the sender are those of the receiver, for every mixture of faults.
TEST(Faults, TheReceiverCountsWhatTheSenderDid) {
  for (uint32_t mixture = 1; mixture < 64; ++mixture) {
    std::vector<fault_rule> rules;
    for (size_t kind = 0; kind < fault_kinds; ++kind)
      if (mixture >> kind & 1)
        rules.push_back({static_cast<fault>(kind), static_cast<uint32_t>(3 + 2 * kind)});
    disturber sender(rules);
    roster receiver(test::table(1, 8), test::secret, {}, {});
    uint64_t datagrams = 0;
    const auto give_all = [&](const std::vector<bytes>& parts) {
      for (const bytes& each : parts) test::give(receiver, each);
      datagrams += parts.size();
      receiver.evaluate();
    };
    constexpr uint32_t count = 500;
    for (uint32_t number = 0; number < count; ++number)
      give_all(sender.send(test::datagram(1, number, std::vector<int16_t>(8))));
    give_all(sender.end());
    // Sent behind the last fault, so that the window has passed all faults.
    for (uint32_t number = count; number < count + 2 * sequence_window::memory; ++number)
      give_all({test::datagram(1, number, std::vector<int16_t>(8))});
    const totals all = receiver.count();
    EXPECT_EQ(all.of(fate::late), sender.count(fault::late)) << mixture;
    EXPECT_EQ(all.of(fate::duplicated), sender.count(fault::duplicated)) << mixture;
    EXPECT_EQ(all.of(fate::truncated), sender.count(fault::truncated)) << mixture;
    EXPECT_EQ(all.of(fate::oversized), sender.count(fault::oversized)) << mixture;
    EXPECT_EQ(all.of(fate::forged), sender.count(fault::forged)) << mixture;
    EXPECT_EQ(all.lost, sender.count(fault::lost) + sender.count(fault::truncated) +
                            sender.count(fault::oversized))
        << mixture;
    EXPECT_EQ(all.of(fate::accepted) + all.of(fate::late) + all.lost,
              count + 2 * sequence_window::memory)
        << mixture;
    uint64_t sum = 0;
    for (const uint64_t each : all.datagrams) sum += each;
    EXPECT_EQ(sum, datagrams) << mixture;
  }
}
