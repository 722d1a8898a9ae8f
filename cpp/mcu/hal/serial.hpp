// The part of the serial port that is the same on every board.
#pragma once

#include <corank/corank.hpp>

namespace hal {

// How many bytes are kept that nobody has received yet; what comes when it is full is lost.
inline constexpr unsigned received_room = 16;

namespace detail {
inline corank::split_phase_event<> sent;
inline corank::channel<uint8_t, received_room> received;
}  // namespace detail

// The next byte that comes in, once start_serial() was called.
[[nodiscard]] inline auto receive_byte() { return detail::received.receive(); }

}  // namespace hal
