#include "marker.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>

#ifdef CORANK_GATEWAY_GPIO
#include <gpiod.h>
#endif

namespace gateway {

#ifdef CORANK_GATEWAY_GPIO

struct marker::state {
  struct closed {
    void operator()(gpiod_chip* chip) const { gpiod_chip_close(chip); }
  };
  std::unique_ptr<gpiod_chip, closed> chip;
  gpiod_line* line = nullptr;
};

marker::marker(const std::string& chip, unsigned line) : state_(std::make_unique<state>()) {
  const auto failure = [&](const std::string& what) {
    return std::runtime_error(what + ": " + std::strerror(errno) +
                              "; `gpioinfo` lists what there is");
  };
  state_->chip.reset(gpiod_chip_open_lookup(chip.c_str()));
  if (!state_->chip) throw failure("the GPIO chip `" + chip + "` can't be opened");
  state_->line = gpiod_chip_get_line(state_->chip.get(), line);
  if (state_->line == nullptr || gpiod_line_request_output(state_->line, "corank-gateway", 0) != 0)
    throw failure("line " + std::to_string(line) + " of the GPIO chip `" + chip +
                  "` can't be used");
}

marker::~marker() { gpiod_line_release(state_->line); }

void marker::set(bool high) { gpiod_line_set_value(state_->line, high ? 1 : 0); }

#else

struct marker::state {};

marker::marker(const std::string&, unsigned) {
  throw std::runtime_error(
      "there are no GPIO markers in this program: build it with -DCORANK_GATEWAY_GPIO=ON, which "
      "needs Debian's libgpiod-dev");
}

marker::~marker() = default;

void marker::set(bool) {}

#endif

}  // namespace gateway
