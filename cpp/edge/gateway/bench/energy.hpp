// Energy that the kernel counts, where the machine has such counters (/sys/class/powercap, RAPL).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

class energy_counters {
 public:
  // All packages of the machine that may be read. `folder` is another one in tests.
  explicit energy_counters(const std::string& folder = "/sys/class/powercap");

  // Why there are none; empty if there are.
  [[nodiscard]] std::string complaint() const { return complaint_; }

  // Microjoules since the last call, of the whole processor and not of this program alone; none if
  // there are no counters.
  std::optional<uint64_t> since_last();

 private:
  struct counter {
    std::string file;
    uint64_t range;
    uint64_t last;
  };
  std::vector<counter> counters_;
  std::string complaint_;
};

}  // namespace bench
