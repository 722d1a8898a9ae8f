// Tables and datagrams for the tests.
#pragma once

#include "roster.hpp"
#include "wire.hpp"

#include <cstring>
#include <memory>
#include <vector>

namespace gateway::test {

inline const key secret =
    key_of_text("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");

// Makes a table of sensors 1 to `sensors`: a spectrum whose bins add up to more than the sensor's
// number is damaged.
inline std::shared_ptr<const sensor_table> table(size_t sensors, size_t features) {
  std::vector<machine> machines;
  for (uint32_t number = 1; number <= sensors; ++number)
    machines.push_back({.sensor = number,
                        .threshold = static_cast<int32_t>(number),
                        .weights = std::vector<int16_t>(features, 1)});
  return std::make_shared<sensor_table>(machines);
}

inline std::vector<std::byte> datagram(uint32_t sensor, uint32_t sequence,
                                       std::vector<int16_t> bins, uint64_t session = 1) {
  std::vector<std::byte> made(datagram_bytes(bins.size()));
  write({.sensor = sensor,
         .sequence = sequence,
         .session = session,
         .time = 1000 + sequence,
         .features = 0},
        bins, key_of_sensor(secret, sensor), made.data());
  return made;
}

// Passes a datagram on as the receiver does: bytes that do not fit into a slot are dropped.
inline fate give(roster& to, const std::vector<std::byte>& bytes, instant now = {},
                 clock_time clock = 1'000'000'000) {
  std::byte* const slot = to.take_slot();
  // An empty datagram has no bytes to copy.
  if (!bytes.empty()) std::memcpy(slot, bytes.data(), std::min(bytes.size(), to.room()));
  return to.accept(slot, bytes.size(), now, clock);
}

}  // namespace gateway::test
