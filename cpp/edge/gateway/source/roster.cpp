#include "roster.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace gateway {

std::string_view name_of(fate of) {
  constexpr std::string_view names[fates] = {"accepted",   "late",      "stale",     "ahead",
                                             "duplicated", "truncated", "oversized", "malformed",
                                             "unknown",    "forged",    "mismatched"};
  return names[static_cast<size_t>(of)];
}

std::string_view name_of(condition of) {
  constexpr std::string_view names[conditions] = {"waiting", "sound", "damaged", "silent"};
  return names[static_cast<size_t>(of)];
}

roster::roster(std::shared_ptr<const sensor_table> table, const key& of_gateway, const rules& by,
               instant now)
    : table_(std::move(table)), rules_(by), slots_(table_->features()) {
  for (size_t at = 0; at < table_->size(); ++at)
    sensors_.push_back(make_sensor(of_gateway, table_->sensor(at), now));
  due_.reserve(sensors_.size());
}

roster::sensor roster::make_sensor(const key& of_gateway, uint32_t number, instant now) const {
  sensor made;
  made.secret = key_of_sensor(of_gateway, number);
  made.last_received = now;
  return made;
}

// Returns the fate that follows without the sensor's history; cheap checks come first. Nothing that
// a datagram contains is trusted before its tag has been checked.
fate roster::judge(std::span<const std::byte> datagram, size_t bytes, header& head,
                   size_t& place) const {
  switch (parse(datagram, head)) {
    case form::truncated:
      // A datagram that exceeds the slot is only cut off here: its sender has sent all of it.
      return bytes > datagram.size() ? fate::oversized : fate::truncated;
    case form::oversized:
      return fate::oversized;
    case form::malformed:
      return fate::malformed;
    case form::whole:
      break;
  }
  const auto found = table_->find(head.sensor);
  if (!found) return fate::unknown;
  place = *found;
  if (!authentic(datagram, sensors_[place].secret)) return fate::forged;
  return head.features == table_->features() ? fate::accepted : fate::mismatched;
}

fate roster::place_in_session(sensor& of, const header& head, instant now, clock_time clock) const {
  const auto ahead = static_cast<uint64_t>(std::chrono::microseconds(rules_.session_ahead).count());
  const uint64_t latest = clock + std::min(ahead, std::numeric_limits<uint64_t>::max() - clock);
  switch (of.numbers.see(head.session, head.sequence, latest,
                         now - of.last_received >= rules_.silent_after)) {
    case arrival::in_order:
      return fate::accepted;
    case arrival::late:
      return fate::late;
    case arrival::duplicate:
      return fate::duplicated;
    case arrival::ahead:
      return fate::ahead;
    case arrival::stale:
      break;
  }
  return fate::stale;
}

fate roster::accept(std::byte* slot, size_t bytes, instant now, clock_time clock) {
  header head;
  size_t place = 0;
  fate became = judge({slot, std::min(bytes, room())}, bytes, head, place);
  if (became == fate::accepted) {
    sensor& of = sensors_[place];
    became = place_in_session(of, head, now, clock);
    of.duplicated += became == fate::duplicated;
    if (became == fate::accepted || became == fate::late) {
      ++of.received;
      of.late += became == fate::late;
      // The time of the last datagram counts, whatever the earlier ones have said.
      if (became == fate::accepted) of.time = head.time;
      of.last_received = now;
      if (of.status == condition::silent) of.status = condition::waiting;
      of.window.push_back(std::exchange(slot, nullptr));
      if (of.window.size() % rules_.window == 0) due_.push_back(place);
    }
  }
  if (slot != nullptr) slots_.give_back(slot);
  ++datagrams_[static_cast<size_t>(became)];
  return became;
}

std::vector<report> roster::evaluate() {
  batch_.clear();
  for (const size_t place : due_) {
    sensor& of = sensors_[place];
    for (const size_t end = of.judged + rules_.window; of.judged < end; ++of.judged)
      batch_.push_back(
          {.bins = reinterpret_cast<const int16_t*>(of.window[of.judged] + header_bytes),
           .machine = place});
  }
  decided_.resize(batch_.size());
  classify(rules_.by, *table_, batch_, decided_.data());

  std::vector<report> reports;
  const uint8_t* decided = decided_.data();
  for (const size_t place : due_) {
    sensor& of = sensors_[place];
    const size_t damaged = std::accumulate(decided, decided + rules_.window, size_t{0});
    decided += rules_.window;
    of.status = damaged >= rules_.alarm_after ? condition::damaged : condition::sound;
    report& made = reports.emplace_back(report_of(place, of.status));
    made.measurements = rules_.window;
    made.damaged = damaged;
    measurements_ += rules_.window;
    damaged_ += damaged;
  }
  for (const size_t place : due_)
    discard(sensors_[place], std::exchange(sensors_[place].judged, 0));
  due_.clear();
  return reports;
}

std::vector<report> roster::check_silence(instant now) {
  std::vector<report> reports;
  for (size_t place = 0; place < sensors_.size(); ++place) {
    sensor& of = sensors_[place];
    if (of.status == condition::silent || now - of.last_received < rules_.silent_after) continue;
    of.status = condition::silent;
    reports.push_back(report_of(place, of.status));
  }
  return reports;
}

report roster::report_of(size_t place, condition status) const {
  const sensor& of = sensors_[place];
  return {.sensor = table_->sensor(place),
          .status = status,
          .measurements = of.window.size(),
          .damaged = 0,
          .time = of.time,
          .received = of.received,
          .lost = of.numbers.lost(),
          .late = of.late,
          .duplicated = of.duplicated};
}

void roster::discard(sensor& of, size_t count) noexcept {
  const auto end = of.window.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto slot = of.window.begin(); slot != end; ++slot) slots_.give_back(*slot);
  of.window.erase(of.window.begin(), end);
}

void roster::reload(std::shared_ptr<const sensor_table> table, const key& of_gateway,
                    const rules& by, instant now) {
  const bool windows_stay =
      table->features() == table_->features() && by.window == rules_.window && due_.empty();
  std::vector<sensor> sensors;
  std::vector<size_t> taken_from(table->size(), sensors_.size());
  for (size_t at = 0; at < table->size(); ++at) {
    sensors.push_back(make_sensor(of_gateway, table->sensor(at), now));
    if (const auto known = table_->find(table->sensor(at))) taken_from[at] = *known;
  }
  std::vector<size_t> due;
  due.reserve(sensors.size());
  slots new_slots(table->features());
  // Nothing throws from here on.
  uint64_t lost_of_removed = lost_of_removed_;
  for (const sensor& each : sensors_) lost_of_removed += each.numbers.lost();
  for (size_t at = 0; at < sensors.size(); ++at) {
    if (taken_from[at] == sensors_.size()) continue;
    sensor& old = sensors_[taken_from[at]];
    lost_of_removed -= old.numbers.lost();
    const key secret = sensors[at].secret;
    if (!windows_stay) discard(old, old.window.size());
    sensors[at] = std::move(old);
    sensors[at].secret = secret;
    old.window.clear();
  }
  for (sensor& removed : sensors_) discard(removed, removed.window.size());
  if (table->features() != table_->features()) slots_ = std::move(new_slots);
  lost_of_removed_ = lost_of_removed;
  sensors_ = std::move(sensors);
  due_ = std::move(due);
  table_ = std::move(table);
  rules_ = by;
}

totals roster::count() const {
  totals all;
  all.datagrams = datagrams_;
  all.lost = lost_of_removed_;
  all.measurements = measurements_;
  all.damaged = damaged_;
  for (const sensor& each : sensors_) {
    all.lost += each.numbers.lost();
    all.missing += each.numbers.missing();
    ++all.sensors[static_cast<size_t>(each.status)];
  }
  return all;
}

}  // namespace gateway
