// Datagrams with something wrong, on purpose: what a gateway must bear.
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
  // Sent with more bytes than it has.
  oversized,
  // Sent once more with another number and a tag that was made without the key.
  forged,
};
inline constexpr size_t fault_kinds = 6;
std::string_view name_of(fault of);

// Every so many datagrams of a sensor have this fault.
struct fault_rule {
  fault kind;
  uint32_t every;
};

// `KIND=EVERY`, for example `lost=20`. Throws std::runtime_error.
fault_rule fault_of_text(std::string_view text);

using bytes = std::vector<std::byte>;

// What leaves one sensor, in order, when it sends a datagram.
class disturber {
 public:
  explicit disturber(std::vector<fault_rule> rules) : rules_(std::move(rules)) {}

  // A datagram has one fault at most: that of the first rule that applies to its number, the n-th,
  // 2n-th, … for `every` n.
  std::vector<bytes> send(const bytes& datagram);
  // What is still held back, and is not late any more: nothing overtakes it.
  std::vector<bytes> end();

  // How many datagrams had this fault.
  [[nodiscard]] uint64_t count(fault of) const { return counts_[static_cast<size_t>(of)]; }

 private:
  [[nodiscard]] std::optional<fault> next_fault() const;

  std::vector<fault_rule> rules_;
  uint64_t sent_ = 0;
  std::vector<bytes> held_back_;
  uint64_t counts_[fault_kinds]{};
};

}  // namespace gateway
