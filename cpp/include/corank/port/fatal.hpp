// The end of a program by an error, for ports without an operating system.
#pragma once

// The hook of fatal(): a firmware may define it, to log the message and to stop or to reset. It may
// run in an interrupt handler. corank_firmware() brings one that prints in the debugger.
extern "C" [[noreturn]] [[gnu::weak]] void corank_fatal(const char* message);

namespace corank::port {

#if defined(CORANK_FATAL_MESSAGES) && CORANK_FATAL_MESSAGES == 0
// Traps. The program has no texts of messages.
[[noreturn, gnu::always_inline]] inline void fatal(const char*) { __builtin_trap(); }
#else
// Calls the hook with a message, and traps without one.
[[noreturn, gnu::cold, gnu::noinline]] inline void fatal(const char* message) {
  if (corank_fatal != nullptr) corank_fatal(message);
  __builtin_trap();
}
#endif

}  // namespace corank::port
