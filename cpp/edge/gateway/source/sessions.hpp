// Decides which datagrams of one sensor are new, over all of its sessions.
//
// A session begins with the start of its sensor, and that time is its number. No datagram is
// accepted twice, even if it was recorded:
//
// - A session that is later than the current one replaces it, unless it is too far ahead of this
//   machine's clock.
// - It is confirmed once as many of its datagrams were accepted as `sequence_window::memory`. Then
//   the sessions before it are over.
// - Until then the session before it is remembered. If the new one falls silent and the one before
//   continues, the one before is current again. So after a wrong datagram, or a jump of its clock,
//   a sensor is accepted again after that time. Numbers that were seen stay seen.
// - A number that is far ahead of the last one counts only after a silence. So a wrong one does not
//   make the numbers behind it late.
// - Of more than `remembered` sessions, the earliest that is not current is forgotten. Then all
//   sessions up to its number are over.
#pragma once

#include "sequence.hpp"

#include <cstddef>
#include <cstdint>

namespace gateway {

class session_history {
 public:
  static constexpr size_t remembered = 4;

  // Returns the arrival of a datagram of the sensor. `latest` is the last session that may begin
  // now. `is_silent` is true if no datagram of the current session was accepted for so long that
  // the session may be wrong.
  arrival see(uint64_t session, uint32_t number, uint64_t latest, bool is_silent) {
    for (size_t at = 0; at < count_; ++at)
      if (known_[at].session == session) return see_known(at, number, is_silent);
    if (count_ > 0 && (session <= over_ || session < known_[current_].session))
      return arrival::stale;
    if (session > latest) return arrival::ahead;
    if (count_ == remembered) forget_earliest();
    current_ = count_++;
    known_[current_] = {.session = session, .numbers = {}, .accepted = 0};
    return count(known_[current_].numbers.see(number));
  }

  // Returns the sum of sequence_window::lost() over all sessions.
  [[nodiscard]] uint64_t lost() const {
    uint64_t sum = lost_before_;
    for (size_t at = 0; at < count_; ++at)
      sum += known_[at].numbers.lost() + (at == current_ ? 0 : known_[at].numbers.missing());
    return sum;
  }
  [[nodiscard]] uint32_t missing() const {
    return count_ == 0 ? 0 : known_[current_].numbers.missing();
  }

 private:
  struct one {
    uint64_t session = 0;
    sequence_window numbers;
    uint32_t accepted = 0;
  };

  arrival see_known(size_t at, uint32_t number, bool is_silent) {
    one& of = known_[at];
    if (at == current_)
      return !is_silent && of.numbers.is_far(number) ? arrival::ahead
                                                     : count(of.numbers.see(number));
    // The session continues only if this number is higher than all that were seen.
    if (!is_silent || !of.numbers.is_next(number)) return arrival::stale;
    current_ = at;
    return count(of.numbers.see(number));
  }

  // Counts a datagram of the current session, which may confirm the session.
  arrival count(arrival came) {
    one& of = known_[current_];
    if (came != arrival::in_order && came != arrival::late) return came;
    if (of.accepted < sequence_window::memory && ++of.accepted == sequence_window::memory)
      end_earlier();
    return came;
  }

  // Forgets the sessions before the current one. A later session that was given up stays
  // remembered, so that it is not taken for a new one.
  void end_earlier() {
    for (size_t at = count_; at-- > 0;)
      if (known_[at].session < known_[current_].session) forget(at);
  }

  void forget_earliest() {
    size_t earliest = current_ == 0 ? 1 : 0;
    for (size_t at = 0; at < count_; ++at)
      if (at != current_ && known_[at].session < known_[earliest].session) earliest = at;
    forget(earliest);
  }

  void forget(size_t at) {
    const one& of = known_[at];
    if (of.session > over_) over_ = of.session;
    lost_before_ += of.numbers.lost() + of.numbers.missing();
    known_[at] = known_[--count_];
    if (current_ == count_) current_ = at;
  }

  one known_[remembered];
  size_t count_ = 0;
  size_t current_ = 0;
  // Unknown sessions up to this one are over.
  uint64_t over_ = 0;
  uint64_t lost_before_ = 0;
};

}  // namespace gateway
