// A pin of the machine that marks for an external meter when something begins and ends (thesis,
// section 5.3.6). Needs libgpiod 1.6, and the option CORANK_GATEWAY_GPIO of the build.
#pragma once

#include <memory>
#include <string>

namespace gateway {

class marker {
 public:
  // Opens the line of the chip. Throws std::runtime_error if there is no such chip or line, or if
  // the program was built without libgpiod.
  marker(const std::string& chip, unsigned line);
  ~marker();
  marker(const marker&) = delete;
  marker& operator=(const marker&) = delete;

  void set(bool high);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

// Sets a marker, if there is one, for as long as this lives.
class marked {
 public:
  explicit marked(marker* with) : with_(with) {
    if (with_ != nullptr) with_->set(true);
  }
  ~marked() {
    if (with_ != nullptr) with_->set(false);
  }
  marked(const marked&) = delete;
  marked& operator=(const marked&) = delete;

 private:
  marker* with_;
};

}  // namespace gateway
