// Sends a text over the serial port, by the board's send_byte().
#pragma once

#include <corank/corank.hpp>

namespace hal {

inline corank::task<> send(auto&, const char* text) {
  start_serial();
  for (; *text != 0; ++text) co_await send_byte(*text);
}

}  // namespace hal
