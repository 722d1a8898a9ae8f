#include "energy.hpp"

#include <filesystem>
#include <fstream>
#include <utility>

namespace bench {
namespace {

std::optional<uint64_t> number_in(const std::string& file) {
  uint64_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return std::nullopt;
}

}  // namespace

energy_counters::energy_counters(const std::string& folder) {
  std::error_code none;
  bool found = false;
  for (const auto& zone : std::filesystem::directory_iterator(folder, none)) {
    std::string name;
    std::ifstream(zone.path() / "name") >> name;
    // A package already includes the energy that other zones count once more.
    if (!name.starts_with("package")) continue;
    found = true;
    const std::string file = zone.path() / "energy_uj";
    const auto now = number_in(file), range = number_in(zone.path() / "max_energy_range_uj");
    if (now && range) counters_.push_back({file, *range, *now});
  }
  if (counters_.empty())
    error_ = found ? "the energy counters in " + folder + " can only be read by root"
                   : "this machine has no energy counters (" + folder + " has no package)";
}

std::optional<uint64_t> energy_counters::since_last() {
  if (counters_.empty()) return std::nullopt;
  uint64_t sum = 0;
  for (counter& each : counters_) {
    const uint64_t now = number_in(each.file).value_or(each.last);
    const uint64_t last = std::exchange(each.last, now);
    // The counter wraps around.
    sum += now >= last ? now - last : now + each.range - last;
  }
  return sum;
}

}  // namespace bench
