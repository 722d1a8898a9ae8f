// The control block of a coroutine, and its identifier (contract C1 to C4, S1).
//
// The block lies in front of the coroutine's frame, in the place that the developer chose for both,
// and outlives the frame: what became of the coroutine is known for as long as its handle exists,
// and the generation for as long as the place.
//
//   place:  | block | frame: resume, destroy, promise, parameters, locals |
#pragma once

#include "coroutine.hpp"
#include "meta.hpp"
#include "port.hpp"
#include "priority.hpp"

namespace corank {

// What a coroutine is doing (rule S1).
enum class state : uint8_t { ready, running, blocked, exited };

namespace detail {

struct waiter;

// The beginning of every frame, by the ABI that GCC and clang share. A future that waits stands in
// for the frame of the coroutine that awaits it, by beginning in the same way: see await.hpp.
struct frame_head {
  void (*resume)(frame_head*) = nullptr;
  void (*destroy)(frame_head*) = nullptr;
};

// Where a block is in its life. Ready and running are one phase: the running coroutine stays at the
// head of its level's ring until its poll ends, so that to yield is to turn the ring.
//
//            spawn          pick, yield           end of poll without a wake
//   fresh ─────────► queued ────────────► queued ─────────────────────────► blocked
//     │ co_await       │ ▲                   │                                │ │
//     ▼                │ └───────────────────┼────────────── wake ────────────┘ │
//   (a call: it        │ cancel              │ finish, panic, cancel            │ cancel
//   stays fresh)       ▼                     ▼                                  ▼
//                     exited, and free when nobody holds its handle or its frame any more
// Those in which it lives have one bit in common, and differ in one: see mark.
enum class phase : uint8_t { free = 0, fresh = 1, queued = 2, blocked = 3, exited = 4 };

// Beside the phase in `block::flags`.
enum mark : uint8_t {
  phase_mask = 0x07,
  alive = 0x02,     // the bit that queued and blocked have in common
  waits = 0x01,     // the bit that blocked has, and queued has not
  held = 0x08,      // a task or join_handle exists
  framed = 0x10,    // the frame exists
  finished = 0x20,  // exited by co_return
  panicked = 0x40,  // exited by an exception
  taken = 0x80,     // its result has been given away
};

struct block {
  // The ring of its level, while queued.
  block* next;
  block* previous;
  // What to resume: the innermost frame, or the future that stands in for it. For a call, the
  // caller's frame.
  void* leaf;
  uint8_t flags;
  // The effective level: the ring that it is in while queued.
  uint8_t level;
  uint8_t base;
  // Comes again after 256 coroutines in the same place (rule C4).
  uint8_t generation;

  phase where() const { return static_cast<phase>(peek(flags) & phase_mask); }
  bool has(mark what) const { return (peek(flags) & what) != 0; }
  bool lives() const { return has(alive); }

  // Masked, while the coroutine lives: a handler that wakes it changes the same byte.
  void go(phase to) {
    poke(flags, static_cast<uint8_t>((flags & ~phase_mask) | static_cast<uint8_t>(to)));
  }
  void add(mark what) { poke(flags, static_cast<uint8_t>(flags | what)); }
  void remove(mark what) { poke(flags, static_cast<uint8_t>(flags & ~what)); }

  void* frame() { return this + 1; }
  static block* of_frame(void* frame) { return static_cast<block*>(frame) - 1; }

  // Takes the place for a frame, which is returned, and a handle to it; null if it is taken.
#if defined(__clang__)
  // Part of the creation of every coroutine, which clang would expand at each call of the
  // coroutine: this it may not duplicate.
  [[clang::noduplicate]]
#else
  [[gnu::noinline]]
#endif
  void* occupy() {
    if (flags != static_cast<uint8_t>(phase::free)) return nullptr;
    flags = static_cast<uint8_t>(phase::fresh) | held | framed;
    return frame();
  }

  // The frame has gone, or the handle has: the place is free when both have (rule C5). Returns what
  // is left.
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

// Names a coroutine; stale from its exit on (rules C2, C3). Everything that takes one refuses a
// stale one, or does nothing. It may be copied to anywhere, as long as the place outlives it.
class coroutine_id {
 public:
  constexpr coroutine_id() = default;
  explicit coroutine_id(detail::block* block) : block_(block), generation_(block->generation) {}

  // The coroutine, if it lives.
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
