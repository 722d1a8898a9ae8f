#include "table.hpp"

#include "wire.hpp"

#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace gateway {

sensor_table::sensor_table(std::vector<machine> machines)
    : machines_(std::move(machines)),
      features_(machines_.empty() ? 0 : machines_[0].weights.size()) {
  if (machines_.empty()) throw std::runtime_error("there are no sensors");
  for (size_t at = 0; at < machines_.size(); ++at) {
    const machine& one = machines_[at];
    const std::string name = "sensor " + std::to_string(one.sensor);
    if (!places_.emplace(one.sensor, at).second) throw std::runtime_error(name + " is there twice");
    if (one.weights.empty() || one.weights.size() > most_features)
      throw std::runtime_error(name + " has " + std::to_string(one.weights.size()) +
                               " weights; 1 to " + std::to_string(most_features) + " are possible");
    if (one.weights.size() != features_)
      throw std::runtime_error(name + " has " + std::to_string(one.weights.size()) +
                               " weights, the sensor before it " + std::to_string(features_) +
                               "; all must have as many");
    int64_t sum = 0;
    for (const int16_t weight : one.weights) sum += std::abs(int32_t{weight});
    if (sum > most_weight)
      throw std::runtime_error(name + "'s weights are too large: their absolute values add up to " +
                               std::to_string(sum) + ", " + std::to_string(most_weight) +
                               " is possible; scale weights and threshold down");
  }
}

std::optional<size_t> sensor_table::find(uint32_t sensor) const {
  const auto found = places_.find(sensor);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace gateway
