// The port for a program under an operating system. Other threads take the role of interrupt
// handlers.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace corank::port {

using saved = int;
inline constexpr bool parallel = true;
#ifdef CORANK_TAIL_CALLS
inline constexpr bool tail_calls = CORANK_TAIL_CALLS;
#else
inline constexpr bool tail_calls = true;
#endif

inline std::mutex lock;
inline std::condition_variable_any arrived;

inline saved mask() {
  lock.lock();
  return 0;
}
inline void restore(saved) { lock.unlock(); }
inline void wait() { arrived.wait(lock); }
inline void poke() { arrived.notify_one(); }

[[noreturn]] inline void fatal(const char* message) {
  std::fputs(message, stderr);
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace corank::port
