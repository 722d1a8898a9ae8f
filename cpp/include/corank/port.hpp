// What the library asks of the machine. A file of your own replaces the choice made here:
// -DCORANK_PORT='"my_port.hpp"'.
//
// A port defines, in namespace corank::port:
//   saved mask()              keeps interrupt handlers out; what it returns says whether they were kept out before
//   void restore(saved)       undoes one mask()
//   void wait()               called while masked and with nothing ready: sleeps until there may be something to do, and must not miss
//                             what came since mask(). Returns masked
//   void poke()               called while masked: something has become ready, so wait() must end
//   [[noreturn]] void fatal(const char*)
//   constexpr bool parallel   whether a wake can run at the very moment that the scheduler runs (a thread), instead of between two of
//                             its instructions (an interrupt)
#pragma once

#if defined(CORANK_PORT)
#include CORANK_PORT
#elif defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#include "port/cortex_m.hpp"
#else
#include "port/host.hpp"
#endif

namespace corank {

// Keeps interrupt handlers out for as long as it lives. Every use in the library is bounded: a few
// instructions, or one pass over those who wait in one primitive.
class critical {
 public:
  [[gnu::always_inline]] critical() : saved_(port::mask()) {}
  [[gnu::always_inline]] ~critical() { port::restore(saved_); }
  critical(const critical&) = delete;
  critical& operator=(const critical&) = delete;

 private:
  port::saved saved_;
};

namespace detail {

// Reads and writes of what an interrupt handler changes as well: never torn, never invented by the
// compiler. Where threads wake, they are atomic; elsewhere volatile says as much, and compiles to
// shorter code.
template <class T>
[[gnu::always_inline]] inline T peek(const T& object) {
  if constexpr (port::parallel) {
    return __atomic_load_n(&object, __ATOMIC_RELAXED);
  } else {
    return const_cast<const volatile T&>(object);
  }
}
template <class T>
[[gnu::always_inline]] inline void poke(T& object, T value) {
  if constexpr (port::parallel) {
    __atomic_store_n(&object, value, __ATOMIC_RELAXED);
  } else {
    const_cast<volatile T&>(object) = value;
  }
}

}  // namespace detail

}  // namespace corank
