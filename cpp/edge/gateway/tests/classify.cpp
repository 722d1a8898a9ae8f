// Both models decide the same, wherever the rows lie.
#include "classify.hpp"
#include "wire.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace gateway;

namespace {

// Random rows, in memory in order or not, and weights up to the limit.
struct problem {
  problem(size_t sensors, size_t measurements, size_t features, bool scattered, uint64_t seed)
      : chance(seed), table(machines(sensors, features)), bins(sensors * measurements * features) {
    for (int16_t& each : bins) each = any();
    for (size_t row = 0; row < sensors * measurements; ++row)
      rows.push_back({.bins = &bins[row * features], .machine = row / measurements});
    if (scattered) std::shuffle(rows.begin(), rows.end(), chance);
  }

  int16_t any() { return static_cast<int16_t>(chance()); }

  std::vector<machine> machines(size_t sensors, size_t features) {
    std::vector<machine> made(sensors);
    for (size_t at = 0; at < sensors; ++at) {
      made[at].sensor = static_cast<uint32_t>(at);
      made[at].threshold = static_cast<int32_t>(chance());
      const int32_t most = most_weight / static_cast<int32_t>(features);
      for (size_t bin = 0; bin < features; ++bin)
        made[at].weights.push_back(static_cast<int16_t>(std::clamp<int32_t>(any(), -most, most)));
    }
    return made;
  }

  // Computes the decisions by definition, in numbers that do not overflow.
  [[nodiscard]] std::vector<uint8_t> expected() const {
    std::vector<uint8_t> decided;
    for (const measurement& each : rows) {
      int64_t sum = 0;
      for (size_t bin = 0; bin < table.features(); ++bin)
        sum += int64_t{each.bins[bin]} * table.weights(each.machine)[bin];
      decided.push_back(sum > table.threshold(each.machine));
    }
    return decided;
  }

  [[nodiscard]] std::vector<uint8_t> decided(model by) const {
    std::vector<uint8_t> out(rows.size(), 7);
    classify(by, table, rows, out.data());
    return out;
  }

  std::mt19937_64 chance;
  sensor_table table;
  std::vector<int16_t> bins;
  std::vector<measurement> rows;
};

}  // namespace

TEST(Classify, ModelsDecideTheSame) {
  for (const size_t features : {1, 2, 63, 128, 511, 512, 513, 1024, 2048})
    for (const size_t measurements : {1, 2, 15, 40, 100})
      for (const bool scattered : {false, true}) {
        const problem of(3, measurements, features, scattered, features * measurements + scattered);
        const std::vector<uint8_t> expected = of.expected();
        EXPECT_EQ(of.decided(model::sequential), expected)
            << features << " " << measurements << " " << scattered;
        EXPECT_EQ(of.decided(model::coroutine), expected)
            << features << " " << measurements << " " << scattered;
      }
}

TEST(Classify, AnEmptyBatchIsClassified) {
  const problem of(1, 0, 16, false, 1);
  EXPECT_TRUE(of.decided(model::sequential).empty());
  EXPECT_TRUE(of.decided(model::coroutine).empty());
}

// The greatest sums that the table allows, on both sides, at the threshold and next to it.
TEST(Classify, LargestSumsDoNotOverflow) {
  const std::vector<int16_t> weights{32767, 32767, -1};
  const std::vector<int16_t> least{-32768, -32768, 32767};
  const int32_t sum = -32768 * 32767 * 2 - 32767;
  for (const int32_t threshold : {sum - 1, sum, sum + 1}) {
    const sensor_table table({{.sensor = 1, .threshold = threshold, .weights = weights}});
    // From the last row to the first, so that they are not in order. The counts fit the loop, the
    // loop with prefetching, and strands.
    for (const size_t count : {2, 40, 2000}) {
      std::vector<int16_t> bins;
      std::vector<measurement> rows;
      for (size_t row = 0; row < count; ++row) bins.insert(bins.end(), least.begin(), least.end());
      for (size_t row = count; row > 0; --row)
        rows.push_back({.bins = &bins[3 * (row - 1)], .machine = 0});
      for (const model by : {model::sequential, model::coroutine}) {
        std::vector<uint8_t> decided(count, 7);
        classify(by, table, rows, decided.data());
        EXPECT_EQ(decided, std::vector<uint8_t>(count, sum > threshold)) << count;
      }
    }
  }
}

// In order, scattered, then in order again, with ends at every index.
TEST(Classify, OrderMayChangeAnywhere) {
  for (const size_t count : {5, 13, 300, 5000})
    for (const size_t from : {size_t{0}, size_t{1}, count / 3, count - 1})
      for (const size_t length : {size_t{0}, size_t{2}, size_t{5}, count / 2}) {
        problem of(1, count, 16, false, count + from + length);
        const auto begin = of.rows.begin() + static_cast<long>(from);
        std::shuffle(begin, begin + static_cast<long>(std::min(length, count - from)), of.chance);
        EXPECT_EQ(of.decided(model::coroutine), of.expected())
            << count << " " << from << " " << length;
      }
}

TEST(Classify, ModelsHaveNames) {
  EXPECT_EQ(model_of_name("sequential"), model::sequential);
  EXPECT_EQ(model_of_name("coroutine"), model::coroutine);
  EXPECT_THROW(model_of_name("threads"), std::runtime_error);
}
