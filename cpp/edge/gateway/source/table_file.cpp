// Reads a table of sensors from a file.
#include "table.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <limits>
#include <stdexcept>
#include <utility>

namespace gateway {
namespace {

// Returns a whole number that fits `Number`, or throws. A cast would change a number that does not
// fit, and so would a comparison with a number of the other sign.
template <class Number>
Number whole_number(const nlohmann::json& value, const std::string& what) {
  using limits = std::numeric_limits<Number>;
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Number>(value.get<uint64_t>())
                        : value.is_number_integer() && std::in_range<Number>(value.get<int64_t>());
  if (!fits)
    throw std::runtime_error(what + " must be a whole number from " +
                             std::to_string(limits::min()) + " to " +
                             std::to_string(limits::max()) + ", not " + value.dump().substr(0, 40));
  return value.get<Number>();
}

// Reads one machine; `at` is its position in the file.
machine read_machine(const nlohmann::json& from, const std::string& at) {
  machine one{.sensor = whole_number<uint32_t>(from.at("sensor"), at + ".sensor"),
              .threshold = whole_number<int32_t>(from.at("threshold"), at + ".threshold"),
              .weights = {}};
  const nlohmann::json& weights = from.at("weights");
  if (!weights.is_array()) throw std::runtime_error(at + ".weights must be a list");
  for (const nlohmann::json& weight : weights)
    one.weights.push_back(whole_number<int16_t>(
        weight, at + ".weights[" + std::to_string(one.weights.size()) + "], a weight,"));
  return one;
}

}  // namespace

sensor_table sensor_table::read(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file + ": the weights can't be read");
  try {
    const nlohmann::json document = nlohmann::json::parse(in);
    if (document.at("format") != 1)
      throw std::runtime_error("`format` must be 1; this program knows no other");
    std::vector<machine> machines;
    const nlohmann::json& sensors = document.at("sensors");
    if (!sensors.is_array()) throw std::runtime_error("sensors must be a list");
    for (const nlohmann::json& one : sensors)
      machines.push_back(read_machine(one, "sensors[" + std::to_string(machines.size()) + "]"));
    return sensor_table(std::move(machines));
  } catch (const std::exception& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
}

}  // namespace gateway
