// The scheduler. A program has one, for one processor. It runs in thread mode; interrupt handlers
// only wake coroutines.
//
// Spawn, pick, yield, block, wake and reprioritise take constant time, for any number of
// coroutines.
#pragma once

#include "policy.hpp"
#include "rings.hpp"
#include "waiter.hpp"

namespace corank {

// The effect of one step.
enum class step : uint8_t {
  ran,        // it polled a coroutine once
  idle,       // nothing is ready
  elsewhere,  // something strictly more urgent waits elsewhere (rule G3)
};

// A scheduler of coroutines; the program uses `executor`.
class scheduler {
 public:
  constexpr scheduler() = default;
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  // Polls the most urgent coroutine until none is ready.
  [[gnu::noinline]] void run_until_idle() {
    for (unsigned level; (level = rings_.most_urgent()) != detail::rings::none;) {
      // Yields alone do not change the most urgent level: the ring turns from its head on.
      detail::block* block;
      detail::block** head = rings_.head_link(level);
      // Keeps the head in one register; the compiler would use two.
      asm("" : "+r"(head));
      detail::block* const* next = head;
      do {
        block = begin(head, next);
        next = &block->next;
      } while (resume(block));
      end_poll(block);
    }
    detail::poke<detail::block*>(current_, nullptr);
  }

  // Polls forever, and lets the processor sleep while nothing is ready. No wake is lost: see
  // port::wait().
  [[noreturn]] void run() {
    for (;;) {
      run_until_idle();
      sleep();
    }
  }

  // Sleeps until the next interrupt. Returns at once if a coroutine is ready.
  void sleep() {
    sleep_unless([] { return false; });
  }
  // Sleeps until the next interrupt, unless a coroutine is ready or `has_work` returns true. It is
  // called with interrupts masked, so what a handler has stored before is not missed: for a loop
  // that has work of its own. It calls nothing of the library.
  template <class HasWork>
  void sleep_unless(HasWork has_work) {
    critical masked;
    if (rings_.most_urgent() == detail::rings::none && !has_work()) port::wait();
  }

  // Picks and polls once by a policy (rules B1 to B6), unless more urgent work waits elsewhere
  // (rules G1 to G6).
  template <class Policy, class View = relaxed>
  [[nodiscard]] step step_under(Policy& policy, const View& view = {}) {
    const unsigned level = rings_.most_urgent();
    if (level == detail::rings::none) return step::idle;
    if (view.most_urgent_elsewhere() < level) return step::elsewhere;
    const unsigned picked = policy.pick(rings_);
    detail::block** const head = rings_.head_link(picked);
    detail::block* const block = begin(head, head);
    resume(block) ? static_cast<void>(rings_.turn(head, &block->next)) : end_poll(block);
    detail::poke<detail::block*>(current_, nullptr);
    return step::ran;
  }
  // Picks and polls the most urgent coroutine once.
  [[nodiscard]] step step_once() {
    strict policy;
    return step_under(policy);
  }

  // Returns the levels that have ready coroutines (rule P3). From any context; O(64).
  [[nodiscard]] levels ready() const {
    critical masked;
    const levels bits = rings_.bits();
    // The running coroutine is in its ring but not ready. A finished one has left the ring.
    if (current_ == nullptr || current_->where() != detail::phase::queued ||
        !rings_.is_alone(current_->level))
      return bits;
    return levels(bits.bits() & ~(uint64_t{1} << current_->level));
  }

  // Returns the effective level of the running coroutine (rule P4), or `levels_count` between
  // polls.
  [[nodiscard]] unsigned running() const {
    return current_ == nullptr ? levels_count : current_->level;
  }

  // Returns the running coroutine, or a stale identifier outside a poll (rule C7).
  [[nodiscard]] coroutine_id current() const {
    return current_ == nullptr ? coroutine_id() : coroutine_id(current_);
  }

  // Returns the state of a coroutine; `exited` for a stale identifier.
  [[nodiscard]] corank::state state(coroutine_id id) const {
    detail::block* const block = id.find();
    if (block == nullptr) return state::exited;
    if (block == current_) return state::running;
    return block->where() == detail::phase::queued ? state::ready : state::blocked;
  }

  // Returns the effective level (rule P5), or the error if the coroutine has exited.
  [[nodiscard]] result<priority, priority_out_of_range> level(coroutine_id id) const {
    detail::block* const block = id.find();
    return priority::from(block == nullptr ? levels_count : block->level);
  }

  // Makes a blocked coroutine ready. A wake of the running coroutine is remembered (rules W1 to
  // W5). From any context, interrupt handlers included. Returns false if the coroutine has exited.
  bool wake(coroutine_id id) {
    critical masked;
    detail::block* const block = id.find();
    if (block != nullptr) wake_masked(block);
    return block != nullptr;
  }

  // Sets a coroutine's base level, at once (rules R1 to R5). Returns false if the coroutine has
  // exited.
  bool reprioritize(coroutine_id id, priority level) {
    detail::block* const block = id.find();
    if (block == nullptr) return false;
    block->base = static_cast<uint8_t>(level.level());
    detail::refresh_level(block);
    return true;
  }

  // Destroys a coroutine's frame, at once or at the end of a running poll (rules X1 to X4). Returns
  // false if the coroutine has exited.
  bool cancel(coroutine_id id) {
    detail::block* const block = id.find();
    return block != nullptr && cancel_living(block);
  }

  // Returns the number of coroutines that were spawned and have not exited.
  [[nodiscard]] unsigned live() const { return live_; }

  // Limits the number of living coroutines; spawn() refuses one more (rule C6). The default limit
  // is the frame storage.
  void limit(unsigned coroutines) { beyond_limit_ = ~coroutines; }

  // ---- for the library's own parts ----

  // Makes a new coroutine ready (rule S2), unless the limit is reached.
  [[gnu::noinline]] bool start(detail::block* block, uint8_t level) {
    // Beyond the limit, the sum overflows.
    unsigned beyond;
    if (__builtin_add_overflow(live_ + 1, beyond_limit_, &beyond)) return false;
    ++live_;
    block->leaf = block->frame();
    detail::poke(block->base, level);
    detail::poke(block->level, level);
    critical masked;
    detail::poke(block->flags, static_cast<uint8_t>(static_cast<uint8_t>(detail::phase::queued) |
                                                    detail::held | detail::framed));
    rings_.push(block);
    port::poke();
    return true;
  }

  void wake_masked(detail::block* block) {
    if (block->where() == detail::phase::blocked) {
      enqueue(block);
    } else if (block == current_) {
      remember_wake();
    }
  }

  // Records a wake of the running coroutine, by itself or by a handler (rule W3).
  [[gnu::always_inline]] void remember_wake() { detail::poke(rings_.notes.each.woken, uint8_t{1}); }

  void set_level(detail::block* block, unsigned level) {
    critical masked;
    const bool in_ring = block->where() == detail::phase::queued;
    if (in_ring) rings_.remove(block);
    block->level = static_cast<uint8_t>(level);
    if (in_ring) rings_.push(block);
    // The running coroutine is no longer at the head of the ring that turns.
    if (block == current_) rings_.notes.each.changed = 1;
  }

  bool cancel_living(detail::block* block) {
    if (block == current_) {
      critical masked;
      const bool first = rings_.notes.each.ends == goes_on;
      rings_.notes.each.ends = cancelled;
      drop_cancelled_ = [](scheduler& self, detail::block* stopped) { self.drop_future(stopped); };
      return first;
    }
    drop_future(block);
    return true;
  }

  // Ends the running coroutine, after its final suspension.
  void finish(detail::mark how) {
    detail::block* const block = current_;
    {
      critical masked;
      // A finished coroutine stays finished, even after a cancel (rule X3).
      rings_.remove(block);
      rings_.notes.each.ends = done;
      block->flags = static_cast<uint8_t>((block->flags & detail::held) | detail::framed | how |
                                          static_cast<uint8_t>(detail::phase::exited));
    }
    --live_;
    if (detail::promise_of(block).waiters != nullptr) detail::end_waiters(block);
    if (!block->has(detail::held)) destroy(block);
  }

  // Where the next coroutine is resumed from: by the one that suspends, which jumps there, or by
  // the scheduler, to which it returns (port::tail_calls).
  template <bool TailCalls>
  using jump_by = detail::conditional_t<TailCalls, std::coroutine_handle<>, void>;
  using jump = jump_by<port::tail_calls>;

  // Continues the running coroutine's poll in its leaf, at `frame`.
  template <bool TailCalls = port::tail_calls>
  [[gnu::always_inline]] jump_by<TailCalls> jump_to([[maybe_unused]] void* frame) {
    if constexpr (TailCalls) {
      return std::coroutine_handle<>::from_address(frame);
    } else {
      jumps_.pending = true;
    }
  }

  // Sets the frame or future that the scheduler resumes next for the running coroutine.
  void set_leaf(void* leaf) { *(leaf_link_ != nullptr ? leaf_link_ : &current_->leaf) = leaf; }

  // Resumes one of several parts of the running coroutine; see await.hpp.
  void resume_part(void*& leaf) {
    void** const outer = detail::exchange(leaf_link_, &leaf);
    resume_leaf(leaf);
    leaf_link_ = outer;
  }

  detail::block* running_block() const { return current_; }

  static void destroy(detail::block* block) {
    std::coroutine_handle<>::from_address(block->frame()).destroy();
  }

 private:
  // Resumes a leaf and, without tail calls, what it continues with.
  [[gnu::always_inline]] void resume_leaf(void*& leaf) {
    std::coroutine_handle<>::from_address(leaf).resume();
    follow_jumps(leaf);
  }
  template <bool TailCalls = port::tail_calls>
  [[gnu::always_inline]] void follow_jumps([[maybe_unused]] void*& leaf) {
    if constexpr (!TailCalls)
      while (jumps_.pending) {
        jumps_.pending = false;
        std::coroutine_handle<>::from_address(leaf).resume();
      }
  }

  // The way in which the running coroutine's poll ends.
  enum ending : uint8_t { goes_on, cancelled, done };
  // The common end of a poll: the coroutine was woken, and nothing else has happened.
  static constexpr uint32_t yielded = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 1 : 1u << 24;

  // Polls once. Returns true for the common end: a yield, and no other level became ready
  // meanwhile. This check also decides the next pick. After false, call end_poll().
  [[gnu::always_inline]] bool resume(detail::block* block) {
    resume_leaf(block->leaf);
    return detail::peek(rings_.notes.all) == yielded && !port::parallel;
  }

  // Makes `*next` the head of its level, and begins its poll.
  [[gnu::always_inline]] detail::block* begin(detail::block** head, detail::block* const* next) {
    if constexpr (port::parallel) {
      critical masked;
      return take(head, next);
    }
    return take(head, next);
  }

  // The order matters: a wake between the two stores counts for the poll that begins.
  [[gnu::always_inline]] detail::block* take(detail::block** head, detail::block* const* next) {
    detail::block* const block = rings_.turn(head, next);
    detail::poke(current_, block);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    detail::poke(rings_.notes.each.woken, uint8_t{0});
    return block;
  }

  [[gnu::noinline]] void end_poll(detail::block* block) {
    uint8_t how;
    {
      critical masked;
      how = rings_.notes.each.ends;
      if (how == goes_on) {
        rings_.remove(block);
        // After this the block must not be read: a handler may make the coroutine ready again.
        rings_.notes.each.woken != 0 ? rings_.push(block) : block->add(detail::waits);
      }
      rings_.notes.all = 0;
    }
    if (how == cancelled) drop_cancelled_(*this, block);
  }

  // Ends a living coroutine without an output, and drops its future.
  [[gnu::noinline]] void drop_future(detail::block* block) {
    {
      critical masked;
      if (block->where() == detail::phase::queued) rings_.remove(block);
      block->go(detail::phase::exited);
    }
    --live_;
    destroy(block);
  }

  void enqueue(detail::block* block) {
    block->remove(detail::waits);
    rings_.push(block);
    port::poke();
  }

  // The running coroutine, which is at the head of its ring. Null outside the loop. Between two
  // polls of a loop, it is the coroutine that ran last.
  detail::block* current_ = nullptr;
  // Drops the future of the coroutine that ran. cancel() sets it, so a program without cancelling
  // has no code for it.
  void (*drop_cancelled_)(scheduler&, detail::block*) = nullptr;
  // The address of the running part's leaf; null for the running block's own.
  void** leaf_link_ = nullptr;
  // Whether the leaf that was resumed continues with another one.
  struct jumping {
    bool pending = false;
  };
  struct not_jumping {
    static inline bool pending = false;  // named, and never used
  };
  [[no_unique_address]] detail::conditional_t<port::tail_calls, not_jumping, jumping> jumps_;
  unsigned live_ = 0;
  // The complement of the limit. Without a limit it is 0, so the scheduler is all zeros and takes
  // no flash.
  unsigned beyond_limit_ = 0;
  // The last member: see rings.
  detail::rings rings_;
};

// The scheduler of the program.
inline constinit scheduler executor;

// Returns the running coroutine, or a stale identifier outside a poll.
[[nodiscard]] inline coroutine_id current() { return executor.current(); }
// Wakes a coroutine as scheduler::wake() does.
inline bool wake(coroutine_id id) { return executor.wake(id); }
// Sets a base level as scheduler::reprioritize() does.
inline bool reprioritize(coroutine_id id, priority level) {
  return executor.reprioritize(id, level);
}
// Cancels a coroutine as scheduler::cancel() does.
inline bool cancel(coroutine_id id) { return executor.cancel(id); }

namespace detail {
inline void set_level(block* changed, unsigned level) { executor.set_level(changed, level); }
inline void wake(block* woken) {
  critical masked;
  executor.wake_masked(woken);
}
}  // namespace detail

}  // namespace corank
