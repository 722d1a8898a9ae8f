// A register of a device, by its address. It is a constant, so it takes no RAM and no code
// initialises it.
#pragma once

#include <stdint.h>

namespace hal {

class io {
 public:
  constexpr explicit io(uint32_t address) : address_(address) {}
  io(const io&) = delete;
  [[gnu::always_inline]] operator uint32_t() const { return at(); }
  // Writes the register, and does not read it afterwards.
  [[gnu::always_inline]] void operator=(uint32_t value) const { at() = value; }

 private:
  [[gnu::always_inline]] volatile uint32_t& at() const {
    return *reinterpret_cast<volatile uint32_t*>(address_);
  }

  uint32_t address_;
};

}  // namespace hal
