// The interface between the library and a platform. To use a port of your own, compile with
// -DCORANK_PORT='"my_port.hpp"'.
//
// A port defines, in namespace corank::port:
//
//   saved mask()
//       keeps interrupt handlers out; returns whether they were kept out before
//   void restore(saved)
//       undoes one mask()
//   void wait()
//       called while masked and with nothing ready: sleeps until a wake is possible, and must not
//       miss one that came since mask(); returns masked
//   void poke()
//       called while masked after a coroutine has become ready: wait() must end
//   [[noreturn]] void fatal(const char*)
//       ends the program with a message
//   constexpr bool parallel
//       whether a wake can run at the same time as the scheduler (a thread), instead of between two
//       of its instructions (an interrupt)
//   constexpr bool tail_calls
//       whether the compiler turns the jump from one coroutine into another into a branch. Without
//       that, a coroutine that calls another one returns to the scheduler, which continues with the
//       other one. So a loop of calls that never wait takes no more stack with each.
#pragma once

#if defined(CORANK_PORT)
#include CORANK_PORT
#elif defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#include "port/cortex_m.hpp"
#elif defined(__riscv) && !defined(__linux__)
#include "port/riscv.hpp"
#else
#include "port/host.hpp"
#endif

namespace corank {

// Keeps interrupt handlers out during its lifetime. Every use in the library is bounded: by a few
// instructions, or by one pass over the waiters of one primitive.
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

// Reads or writes a variable that an interrupt handler also changes, without tearing. If threads
// can wake coroutines, the access is atomic. Otherwise it is volatile, which compiles to shorter
// code.
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
