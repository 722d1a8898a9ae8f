// Files of weights: good ones, and each kind of bad one with its message.
#include "table.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include <unistd.h>

using namespace gateway;

namespace {

class Table : public testing::Test {
 protected:
  ~Table() override { std::remove(file.c_str()); }

  sensor_table read(const std::string& text) const {
    std::ofstream(file) << text;
    return sensor_table::read(file);
  }
  // Returns the error for such a file. It must name the file.
  std::string error_of(const std::string& text) const {
    try {
      read(text);
    } catch (const std::runtime_error& error) {
      const std::string said = error.what();
      EXPECT_EQ(said.find(file), 0u) << said;
      return said;
    }
    return "nothing";
  }

  const std::string file =
      testing::TempDir() + "gateway-tests-table-" + std::to_string(getpid()) + ".json";
};

bool says(const std::string& error, const std::string& part) {
  return error.find(part) != std::string::npos;
}

}  // namespace

TEST_F(Table, IsRead) {
  const sensor_table table = read(
      R"({"format": 1, "sensors": [{"sensor": 9, "threshold": -5, "weights": [1, -2]}, {"sensor": 4, "threshold": 7, "weights": [3, 4]}]})");
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.features(), 2u);
  EXPECT_EQ(table.find(4), 1u);
  EXPECT_EQ(table.find(5), std::nullopt);
  EXPECT_EQ(table.sensor(0), 9u);
  EXPECT_EQ(table.threshold(0), -5);
  EXPECT_EQ(table.weights(0)[1], -2);
}

TEST_F(Table, BadFilesAreRefused) {
  const auto with = [](const std::string& machines) {
    return R"({"format": 1, "sensors": [)" + machines + "]}";
  };
  const std::string good = R"({"sensor": 1, "threshold": 0, "weights": [1]})";
  EXPECT_TRUE(says(error_of(""), "parse error"));
  EXPECT_TRUE(says(error_of(with(good).substr(0, 40)), "parse error"));
  EXPECT_TRUE(says(error_of("[]"), ""));
  EXPECT_TRUE(says(error_of(R"({"format": 2, "sensors": []})"), "`format` must be 1"));
  EXPECT_TRUE(says(error_of(R"({"format": 1})"), "sensors"));
  EXPECT_TRUE(says(error_of(with("")), "there are no sensors"));
  EXPECT_TRUE(says(error_of(with(good + "," + good)), "sensor 1 is there twice"));
  EXPECT_TRUE(says(error_of(with(R"({"sensor": 1, "threshold": 0, "weights": []})")), "0 weights"));
  EXPECT_TRUE(says(error_of(with(good + R"(,{"sensor": 2, "threshold": 0, "weights": [1, 2]})")),
                   "all must have as many"));
  EXPECT_TRUE(says(error_of(with(R"({"sensor": -1, "threshold": 0, "weights": [1]})")),
                   "sensors[0].sensor must be"));
  EXPECT_TRUE(says(error_of(with(R"({"sensor": 1, "threshold": 3000000000, "weights": [1]})")),
                   "sensors[0].threshold must be"));
  EXPECT_TRUE(says(error_of(with(R"({"sensor": 1, "threshold": 0, "weights": [40000]})")),
                   "sensors[0].weights[0], a weight, must be"));
  EXPECT_TRUE(says(error_of(with(R"({"sensor": 1, "threshold": 0, "weights": [1.5]})")),
                   "sensors[0].weights[0], a weight, must be"));
  EXPECT_TRUE(
      says(error_of(with(R"({"sensor": 1, "threshold": 0, "weights": [32767, 32767, -2]})")),
           "too large"));
  // A number that a conversion to a signed type makes -1.
  EXPECT_TRUE(says(
      error_of(with(good + R"(,{"sensor": 2, "threshold": 0, "weights": [18446744073709551615]})")),
      "sensors[1].weights[0], a weight, must be"));
  EXPECT_TRUE(
      says(error_of(with(R"({"sensor": 1, "threshold": 18446744073709551615, "weights": [1]})")),
           "sensors[0].threshold must be"));
  EXPECT_TRUE(
      says(error_of(with(R"({"sensor": 18446744073709551615, "threshold": 0, "weights": [1]})")),
           "sensors[0].sensor must be"));
  EXPECT_TRUE(
      says(error_of(with(R"({"sensor": 1, "threshold": 0, "weights": [1e400]})")), "out_of_range"));
  EXPECT_TRUE(says(error_of(with(R"({"sensor": 1, "threshold": 0, "weights": {"a": 1}})")),
                   "sensors[0].weights must be a list"));
  EXPECT_NO_THROW(read(with(R"({"sensor": 1, "threshold": 0, "weights": [32767, 32767, -1]})")));
  std::remove(file.c_str());
  EXPECT_THROW(sensor_table::read(file), std::runtime_error);
}
