// Prefetching memory.
//
//   corank::prefetch_now(p, bytes);        prefetches, and continues at once
//   co_await corank::prefetch(p, bytes);   prefetches, and yields until the bytes are expected
//
// The second form is for a `strand` of interleave.hpp: it yields to the other strands of its run.
// The idea is that of the thesis, section 4.3.1. The address may be anything: to prefetch memory
// that does not exist is not an error, and has no effect.
#pragma once

#include "coroutine.hpp"
#include "meta.hpp"

namespace corank {

// The bytes that a processor fetches at once: 64 on every x86-64 and on the AArch64 processors of
// edge devices.
inline constexpr size_t cache_line = 64;

// The most lines that one call prefetches. A core tracks 10 to 20 misses at a time; a request
// beyond that waits. The core's own prefetcher fetches the rest of a long row.
inline constexpr size_t most_lines = 16;

// Prefetches the lines of `bytes` bytes from `p`: at least one, at most `most_lines`. Two
// instructions a line.
[[gnu::always_inline]] inline void prefetch_now(const void* p, size_t bytes = 1) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(p);
  const uintptr_t first = address & ~uintptr_t{cache_line - 1};
  __builtin_prefetch(reinterpret_cast<const void*>(first));
  // With constant offset and size, this number is a constant and the compiler unrolls the loop.
  const size_t behind = ((address & (cache_line - 1)) + bytes + cache_line - 1) / cache_line;
  for (size_t line = 1; line < most_lines && line < behind; ++line)
    __builtin_prefetch(reinterpret_cast<const void*>(first + line * cache_line));
}

namespace detail {
// A promise whose coroutine can await memory: see interleave/strand.hpp.
template <class Promise>
concept can_yield = requires(void* frame) { Promise::yield_strand(frame); };
}  // namespace detail

// Yields to the other strands of the run when awaited, or to the scheduler in a `task`.
struct turn {
  constexpr bool await_ready() const noexcept { return false; }
  template <detail::can_yield Promise>
  [[gnu::always_inline]] void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
    Promise::yield_strand(self.address());
  }
  constexpr void await_resume() const noexcept {}
};

// Prefetches memory and yields when awaited. Cost: see docs/cpp-edge.md.
class [[nodiscard("to prefetch is to await this: co_await corank::prefetch(p, bytes)")]] prefetch
    : public turn {
 public:
  [[gnu::always_inline]] explicit prefetch(const void* p, size_t bytes = 1) noexcept {
    prefetch_now(p, bytes);
  }
};

}  // namespace corank
