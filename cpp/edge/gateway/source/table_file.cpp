// Reading a table of sensors from a file.
#include "table.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <limits>
#include <stdexcept>

namespace gateway {
namespace {

// Numbers that don't fit are an error: a cast would make other ones of them.
template <class Number>
Number whole_number(const nlohmann::json& value, const char* what) {
  if (!value.is_number_integer() || value < std::numeric_limits<Number>::min() || value > std::numeric_limits<Number>::max())
    throw std::runtime_error(std::string(what) + " must be a whole number from " + std::to_string(std::numeric_limits<Number>::min()) + " to " +
                             std::to_string(std::numeric_limits<Number>::max()) + ", not " + value.dump().substr(0, 40));
  return value.get<Number>();
}

machine read_machine(const nlohmann::json& from) {
  machine one{.sensor = whole_number<uint32_t>(from.at("sensor"), "`sensor`"), .threshold = whole_number<int32_t>(from.at("threshold"), "`threshold`"), .weights = {}};
  for (const nlohmann::json& weight : from.at("weights")) one.weights.push_back(whole_number<int16_t>(weight, "a weight"));
  return one;
}

}  // namespace

sensor_table sensor_table::read(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file + ": the weights can't be read");
  try {
    const nlohmann::json document = nlohmann::json::parse(in);
    if (document.at("format") != 1) throw std::runtime_error("`format` must be 1; this program knows no other");
    std::vector<machine> machines;
    for (const nlohmann::json& one : document.at("sensors")) machines.push_back(read_machine(one));
    return sensor_table(std::move(machines));
  } catch (const std::exception& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
}

}  // namespace gateway
