// Datagrams with faults on purpose, which a gateway must withstand.
#pragma once

#include "wire.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {

enum class fault : uint8_t {
  // Not sent.
  lost,
  // Sent after the sensor's next one that arrives whole.
  late,
  // Sent twice.
  duplicated,
  // Sent without its last bytes.
  truncated,
  // Sent with additional bytes.
  oversized,
  // Sent once more with another number and a tag that was made without the key.
  forged,
};
inline constexpr size_t fault_kinds = 6;
std::string_view name_of(fault of);

// A rule: every `every`-th datagram of a sensor has this fault.
struct fault_rule {
  fault kind;
  uint32_t every;
};

// Parses `KIND=EVERY`, for example `lost=20`. Throws std::runtime_error.
fault_rule fault_of_text(std::string_view text);

using bytes = std::vector<std::byte>;

// The datagrams that leave one sensor, with their faults.
class disturber {
 public:
  explicit disturber(std::vector<fault_rule> rules) : rules_(std::move(rules)) {}

  // Returns the datagrams to send for this one, in order. A datagram has one fault at most: that of
  // the first rule that applies to its number, the n-th, 2n-th, … for `every` n.
  std::vector<bytes> send(const bytes& datagram);
  // Returns the datagrams that are still held back. They are no longer late: nothing overtakes
  // them.
  std::vector<bytes> end();

  // Returns the number of datagrams with this fault.
  [[nodiscard]] uint64_t count(fault of) const { return counts_[static_cast<size_t>(of)]; }

 private:
  [[nodiscard]] std::optional<fault> next_fault() const;

  std::vector<fault_rule> rules_;
  uint64_t sent_ = 0;
  std::vector<bytes> held_back_;
  uint64_t counts_[fault_kinds]{};
};

}  // namespace gateway
