// The part of the serial port that is the same on every board.
#pragma once

#include <corank/corank.hpp>

namespace hal {

// The capacity of the receive buffer in bytes. Bytes that arrive while it is full are lost.
inline constexpr unsigned received_room = 16;

namespace detail {
inline corank::split_phase_event<> sent;
inline corank::channel<uint8_t, received_room> received;
}  // namespace detail

// Waits for the next received byte. start_serial() must have been called.
[[nodiscard]] inline auto receive_byte() { return detail::received.receive(); }

}  // namespace hal
