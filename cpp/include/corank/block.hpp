// The control block of a coroutine, and its identifier (contract C1 to C4, S1).
//
// The block lies in front of the coroutine's frame, in the same frame storage, and outlives the
// frame. Its state is valid while a handle exists, and its generation while the storage exists.
//
//   storage:  | block | frame: resume, destroy, promise, parameters, locals |
#pragma once

#include "coroutine.hpp"
#include "meta.hpp"
#include "port.hpp"
#include "priority.hpp"

namespace corank {

// The state of a coroutine (rule S1).
enum class state : uint8_t { ready, running, blocked, exited };

namespace detail {

struct waiter;

// The first two words of every frame, by the ABI that GCC and clang share. A waiting future begins
// in the same way, so it can stand in for a frame: see await.hpp.
struct frame_head {
  void (*resume)(frame_head*) = nullptr;
  void (*destroy)(frame_head*) = nullptr;
};

// The phase of a block. Ready and running are one phase: the running coroutine stays at the head of
// its level's ring until its poll ends. So a yield only turns the ring.
//
//            spawn          pick, yield           end of poll without a wake
//   fresh ─────────► queued ────────────► queued ─────────────────────────► blocked
//     │ co_await       │ ▲                   │                                │ │
//     ▼                │ └───────────────────┼────────────── wake ────────────┘ │
//   (a call: it        │ cancel              │ finish, panic, cancel            │ cancel
//   stays fresh)       ▼                     ▼                                  ▼
//                     exited, then free when neither the frame nor a handle exists
//
// The living phases have one bit in common, and differ in one: see mark.
enum class phase : uint8_t { free = 0, fresh = 1, queued = 2, blocked = 3, exited = 4 };

// Further bits in `block::flags`.
enum mark : uint8_t {
  phase_mask = 0x07,
  alive = 0x02,     // common to queued and blocked
  waits = 0x01,     // set in blocked, clear in queued
  held = 0x08,      // a task or join_handle exists
  framed = 0x10,    // the frame exists
  finished = 0x20,  // exited by co_return
  panicked = 0x40,  // exited by an exception
  taken = 0x80,     // its result has been taken
};

struct block {
  // Neighbours in the ring of its level, while queued.
  block* next;
  block* previous;
  // The frame or future to resume next: the innermost frame, or the future that stands in for it.
  // For a call, the caller's frame.
  void* leaf;
  uint8_t flags;
  // The effective level, which selects the ring while queued.
  uint8_t level;
  uint8_t base;
  // Repeats after 256 coroutines in the same storage (rule C4).
  uint8_t generation;

  phase where() const { return static_cast<phase>(peek(flags) & phase_mask); }
  bool has(mark what) const { return (peek(flags) & what) != 0; }
  bool lives() const { return has(alive); }

  // These change a byte that a waking handler also changes: call them masked while the coroutine
  // lives.
  void go(phase to) {
    poke(flags, static_cast<uint8_t>((flags & ~phase_mask) | static_cast<uint8_t>(to)));
  }
  void add(mark what) { poke(flags, static_cast<uint8_t>(flags | what)); }
  void remove(mark what) { poke(flags, static_cast<uint8_t>(flags & ~what)); }

  void* frame() { return this + 1; }
  static block* of_frame(void* frame) { return static_cast<block*>(frame) - 1; }

  // Reserves the storage for a frame and a handle. Returns the frame, or null if the storage is in
  // use.
#if defined(__clang__)
  // clang expands this creation code at each call of the coroutine, and must not duplicate it.
  [[clang::noduplicate]]
#else
  [[gnu::noinline]]
#endif
  void* occupy() {
    if (flags != static_cast<uint8_t>(phase::free)) return nullptr;
    flags = static_cast<uint8_t>(phase::fresh) | held | framed;
    return frame();
  }

  // Gives up the frame or the handle. The storage is free when neither is left (rule C5). Returns
  // the flags that are left.
  [[gnu::noinline]] uint8_t give_up(mark what) {
    critical masked;
    uint8_t left = flags & static_cast<uint8_t>(~what);
    if ((left & (held | framed)) == 0) {
      left = static_cast<uint8_t>(phase::free);
      ++generation;
    }
    poke(flags, left);
    return left;
  }
};

static_assert(sizeof(void*) != 4 || sizeof(block) == 16,
              "a block is 16 bytes, so that the frame behind it is aligned to 8");

}  // namespace detail

// Names a coroutine until its exit, and is stale afterwards (rules C2, C3). Functions that take one
// refuse a stale identifier or ignore it. It may be copied anywhere, as long as the frame storage
// outlives it.
class coroutine_id {
 public:
  constexpr coroutine_id() = default;
  explicit coroutine_id(detail::block* block) : block_(block), generation_(block->generation) {}

  // Returns the coroutine, or null if it does not live.
  [[nodiscard]] detail::block* find() const {
    return block_ != nullptr && block_->generation == generation_ && block_->lives() ? block_
                                                                                     : nullptr;
  }
  friend constexpr bool operator==(coroutine_id, coroutine_id) = default;

 private:
  detail::block* block_ = nullptr;
  uint8_t generation_ = 0;
};

}  // namespace corank
