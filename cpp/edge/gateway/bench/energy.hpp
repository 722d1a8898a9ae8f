// Energy as the kernel counts it, on machines with such counters (/sys/class/powercap, RAPL).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

class energy_counters {
 public:
  // Finds all packages of the machine that may be read. `folder` is another one in tests.
  explicit energy_counters(const std::string& folder = "/sys/class/powercap");

  // Returns the reason why there are no counters, or an empty text if there are some.
  [[nodiscard]] std::string error() const { return error_; }

  // Returns the microjoules since the last call, of the whole processor and not of this program
  // alone. Returns no value without counters.
  std::optional<uint64_t> since_last();

 private:
  struct counter {
    std::string file;
    uint64_t range;
    uint64_t last;
  };
  std::vector<counter> counters_;
  std::string error_;
};

}  // namespace bench
