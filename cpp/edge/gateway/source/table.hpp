// The table of the gateway's sensors: a support vector machine for each, trained for its bearing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace gateway {

// One sensor's machine. A spectrum is that of a damaged bearing if the sum of its products with the
// weights is greater than the threshold (thesis, algorithm 1, line 12).
struct machine {
  uint32_t sensor = 0;
  int32_t threshold = 0;
  std::vector<int16_t> weights;
};

// The limit on the sum of the weights' absolute values. Sums of products are 32 bits wide, and with
// such weights no spectrum makes one overflow. The side of the plane on which a spectrum lies does
// not depend on the weights' scale.
inline constexpr int32_t most_weight = 65535;

// A table that never changes; a reload makes another one.
class sensor_table {
 public:
  // Makes a table. Throws std::runtime_error without a sensor, for a sensor that appears twice, and
  // for weights of different or impossible number or too large ones.
  explicit sensor_table(std::vector<machine> machines);

  // Reads a file of training/train.py: {"format": 1, "sensors": [{"sensor": 1, "threshold": -12,
  // "weights": [3, …]}, …]}. Throws std::runtime_error with the file's name.
  static sensor_table read(const std::string& file);

  [[nodiscard]] size_t size() const { return machines_.size(); }
  // Returns the number of weights of each sensor.
  [[nodiscard]] size_t features() const { return features_; }
  [[nodiscard]] uint32_t sensor(size_t at) const { return machines_[at].sensor; }
  [[nodiscard]] int32_t threshold(size_t at) const { return machines_[at].threshold; }
  [[nodiscard]] const int16_t* weights(size_t at) const { return machines_[at].weights.data(); }
  // Returns a sensor's index in the table.
  [[nodiscard]] std::optional<size_t> find(uint32_t sensor) const;

 private:
  std::vector<machine> machines_;
  std::unordered_map<uint32_t, size_t> places_;
  size_t features_;
};

}  // namespace gateway
