// Asking for memory before it is needed.
//
//   corank::prefetch_now(p, bytes);        asks, and goes on at once
//   co_await corank::prefetch(p, bytes);   asks, and lets other work run until the bytes have come
//
// The second form is for a `strand` of interleave.hpp, where the others of its run go on; the idea
// is that of the thesis, section 4.3.1. An address may be anything: asking for memory that does not
// exist is no error, and does nothing.
#pragma once

#include "coroutine.hpp"
#include "meta.hpp"

namespace corank {

// What a processor fetches at a time, in bytes: 64 on every x86-64 and on the AArch64 processors of
// edge devices.
inline constexpr size_t cache_line = 64;

// One call asks for so many lines at most. A core follows 10 to 20 misses at a time, and what lies
// behind the first lines of a long row its own prefetcher brings; to ask for more makes the core
// wait for room in its list of misses.
inline constexpr size_t most_lines = 16;

// Asks for the lines of `bytes` bytes from `p`; at least one, at most `most_lines`. Two
// instructions a line.
[[gnu::always_inline]] inline void prefetch_now(const void* p, size_t bytes = 1) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(p);
  const uintptr_t first = address & ~uintptr_t{cache_line - 1};
  __builtin_prefetch(reinterpret_cast<const void*>(first));
  // A number that is known to the compiler wherever the place in the line and the bytes are: then
  // it makes no loop of this.
  const size_t behind = ((address & (cache_line - 1)) + bytes + cache_line - 1) / cache_line;
  for (size_t line = 1; line < most_lines && line < behind; ++line)
    __builtin_prefetch(reinterpret_cast<const void*>(first + line * cache_line));
}

namespace detail {
// What a coroutine's promise must be so that it can await memory: see interleave/strand.hpp.
template <class Promise>
concept can_yield = requires(void* frame) { Promise::yield_strand(frame); };
}  // namespace detail

// Awaiting one gives way to the other strands of the run; in a `task`, to its scheduler.
struct turn {
  constexpr bool await_ready() const noexcept { return false; }
  template <detail::can_yield Promise>
  [[gnu::always_inline]] void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
    Promise::yield_strand(self.address());
  }
  constexpr void await_resume() const noexcept {}
};

// Awaiting one asks for memory and gives way until, with luck, it has come. Cost: see
// docs/cpp-edge.md.
class [[nodiscard("to prefetch is to await this: co_await corank::prefetch(p, bytes)")]] prefetch
    : public turn {
 public:
  [[gnu::always_inline]] explicit prefetch(const void* p, size_t bytes = 1) noexcept {
    prefetch_now(p, bytes);
  }
};

}  // namespace corank
