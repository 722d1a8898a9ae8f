// The gateway without its sockets: accepts datagrams, counts the bad ones, classifies windows of
// measurements, and detects silent sensors.
//
//   datagram ──accept──▶ window of its sensor ──full──▶ due ──evaluate──▶ report: sound or damaged
//                 └────▶ counted, and thrown away                check_silence ──▶ report: silent
//
// This code neither reads the clock nor a file, so tests control both.
#pragma once

#include "classify.hpp"
#include "sessions.hpp"
#include "slots.hpp"
#include "table.hpp"
#include "wire.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace gateway {

using instant = std::chrono::steady_clock::time_point;
// The time of day, which numbers sessions, in microseconds since 1970.
using clock_time = uint64_t;

// The fate of a datagram. Each datagram has exactly one.
enum class fate : uint8_t {
  accepted,
  // Accepted too, though a later one came first.
  late,
  // Too late to tell it from a datagram that was seen, or of an earlier session.
  stale,
  // Of a session that begins later than this machine's clock allows, or with a number that is too
  // far ahead for a sensor that is not silent.
  ahead,
  duplicated,
  truncated,
  // Longer than its header says, or with more bins than the gateway's sensors have.
  oversized,
  malformed,
  // From a sensor that is not in the table.
  unknown,
  // Without the sensor's key.
  forged,
  // Authentic, but with fewer bins than the sensor has weights.
  mismatched,
};
inline constexpr size_t fates = 11;
std::string_view name_of(fate of);

// The rules of a roster, which a reload may change.
struct rules {
  model by = model::coroutine;
  // The number of a sensor's measurements in a window (the thesis's M).
  size_t window = 10;
  // The number of damaged measurements in a window that makes the sensor's status `damaged`. In the
  // thesis, one is enough.
  size_t alarm_after = 1;
  // The time after which a sensor without an acceptable datagram is silent.
  std::chrono::milliseconds silent_after{5000};
  // The limit on how far ahead of this machine's clock a session may begin.
  std::chrono::milliseconds session_ahead{600'000};
};

enum class condition : uint8_t {
  // No datagram has come yet.
  waiting,
  sound,
  damaged,
  silent,
};
inline constexpr size_t conditions = 4;
std::string_view name_of(condition of);

// The result for a window of a sensor's measurements, or for its silence.
struct report {
  uint32_t sensor = 0;
  condition status = condition::waiting;
  // The number of classified measurements, and of the damaged among them. For a silent sensor:
  // those that wait for the rest of the window.
  size_t measurements = 0;
  size_t damaged = 0;
  // The time of the last measurement, by the sensor's clock, in microseconds since 1970; 0 without
  // a measurement.
  uint64_t time = 0;
  // The datagrams since the gateway's start.
  uint64_t received = 0;
  uint64_t lost = 0;
  uint64_t late = 0;
  uint64_t duplicated = 0;
};

// What the gateway has counted since its start.
struct totals {
  std::array<uint64_t, fates> datagrams{};
  // Datagrams that never came and never will, and those that may still come late.
  uint64_t lost = 0;
  uint64_t missing = 0;
  uint64_t measurements = 0;
  uint64_t damaged = 0;
  std::array<uint64_t, conditions> sensors{};

  [[nodiscard]] uint64_t of(fate which) const { return datagrams[static_cast<size_t>(which)]; }
  [[nodiscard]] uint64_t of(condition which) const { return sensors[static_cast<size_t>(which)]; }
};

class roster {
 public:
  // Makes a roster. It expects datagrams of each sensor from `now` on.
  roster(std::shared_ptr<const sensor_table> table, const key& of_gateway, const rules& by,
         instant now);
  roster(const roster&) = delete;
  roster& operator=(const roster&) = delete;

  // Returns memory for a datagram. The datagram stays there until it has been classified or
  // discarded.
  std::byte* take_slot() { return slots_.take(); }
  [[nodiscard]] size_t room() const { return slots_.room(); }
  void give_back_slot(std::byte* slot) noexcept { slots_.give_back(slot); }

  // Takes the datagram in a slot, and the slot. `bytes` is the length that was sent, which may
  // exceed the slot.
  fate accept(std::byte* slot, size_t bytes, instant now, clock_time clock);

  // Classifies all full windows in one batch. Returns one report each, in the order in which they
  // became full.
  std::vector<report> evaluate();
  [[nodiscard]] bool due() const { return !due_.empty(); }

  // Reports each sensor that has become silent since the last call, once.
  std::vector<report> check_silence(instant now);

  // Replaces the weights, keys and rules. Sensors that stay keep their counts, and their windows
  // unless the size changes. Changes nothing if it throws. All slots that were taken must have been
  // handed over or given back.
  void reload(std::shared_ptr<const sensor_table> table, const key& of_gateway, const rules& by,
              instant now);

  [[nodiscard]] totals count() const;
  [[nodiscard]] const sensor_table& table() const { return *table_; }

 private:
  struct sensor {
    key secret;
    session_history numbers;
    uint64_t time = 0;
    instant last_received;
    condition status = condition::waiting;
    uint64_t received = 0, late = 0, duplicated = 0;
    // Measurements that have not been classified; during a batch, the number of them in it.
    std::vector<std::byte*> window;
    size_t judged = 0;
  };

  sensor make_sensor(const key& of_gateway, uint32_t number, instant now) const;
  fate judge(std::span<const std::byte> datagram, size_t bytes, header& head, size_t& place) const;
  fate place_in_session(sensor& of, const header& head, instant now, clock_time clock) const;
  report report_of(size_t place, condition status) const;
  void discard(sensor& of, size_t count) noexcept;

  std::shared_ptr<const sensor_table> table_;
  rules rules_;
  slots slots_;
  std::vector<sensor> sensors_;
  // The index of a sensor, once for each of its full windows.
  std::vector<size_t> due_;
  std::array<uint64_t, fates> datagrams_{};
  uint64_t lost_of_removed_ = 0;
  uint64_t measurements_ = 0, damaged_ = 0;
  // Reused by each batch.
  std::vector<measurement> batch_;
  std::vector<uint8_t> decided_;
};

}  // namespace gateway
