// The scheduler: one for the program, as there is one processor. It runs in thread mode; interrupt
// handlers wake and do nothing else.
//
// Constant time, whatever the number of coroutines: spawn, pick, yield, block, wake, re-prioritise.
#pragma once

#include "policy.hpp"
#include "rings.hpp"
#include "waiter.hpp"

namespace corank {

// What one step did.
enum class step : uint8_t {
  ran,        // it polled a coroutine once
  idle,       // nothing is ready
  elsewhere,  // something strictly more urgent waits elsewhere (rule G3)
};

class scheduler {
 public:
  constexpr scheduler() = default;
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  // Polls the most urgent coroutine, until nothing is ready.
  [[gnu::noinline]] void run_until_idle() {
    for (unsigned level; (level = rings_.most_urgent()) != detail::rings::none;) {
      // While nothing but yields happens, the most urgent level stays the same: the ring turns,
      // from its head on.
      detail::block* block;
      detail::block** head = rings_.head_link(level);
      // One register: the compiler would keep two.
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

  // Polls for ever, and lets the processor sleep while nothing is ready. No wake is missed: see
  // port::wait().
  [[noreturn]] void run() {
    for (;;) {
      run_until_idle();
      sleep();
    }
  }

  // Sleeps until something is ready; not at all if something is.
  void sleep() {
    critical masked;
    if (rings_.most_urgent() == detail::rings::none) port::wait();
  }

  // Picks once, by a policy (rules B1 to B6), unless something more urgent waits elsewhere (rules
  // G1 to G6).
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
  [[nodiscard]] step step_once() {
    strict policy;
    return step_under(policy);
  }

  // The levels that have ready coroutines (rule P3). From any context; O(64).
  [[nodiscard]] levels ready() const {
    critical masked;
    const levels bits = rings_.bits();
    // The running coroutine is in its ring, but not ready; once it is at its end it is no longer
    // there.
    if (current_ == nullptr || current_->where() != detail::phase::queued ||
        !rings_.is_alone(current_->level))
      return bits;
    return levels(bits.bits() & ~(uint64_t{1} << current_->level));
  }

  // The effective level of the running coroutine (rule P4); `levels_count` between polls.
  [[nodiscard]] unsigned running() const {
    return current_ == nullptr ? levels_count : current_->level;
  }

  // The running coroutine; a stale identifier outside a poll (rule C7).
  [[nodiscard]] coroutine_id current() const {
    return current_ == nullptr ? coroutine_id() : coroutine_id(current_);
  }

  [[nodiscard]] corank::state state(coroutine_id id) const {
    detail::block* const block = id.find();
    if (block == nullptr) return state::exited;
    if (block == current_) return state::running;
    return block->where() == detail::phase::queued ? state::ready : state::blocked;
  }

  // The effective level (rule P5), or the error if the coroutine has exited.
  [[nodiscard]] result<priority, priority_out_of_range> level(coroutine_id id) const {
    detail::block* const block = id.find();
    return priority::from(block == nullptr ? levels_count : block->level);
  }

  // Makes a blocked coroutine ready; remembered if it runs (rules W1 to W5). From any context,
  // interrupt handlers included. False if it has exited.
  bool wake(coroutine_id id) {
    critical masked;
    detail::block* const block = id.find();
    if (block != nullptr) wake_masked(block);
    return block != nullptr;
  }

  // Gives a coroutine another base level, at once (rules R1 to R5). False if it has exited.
  bool reprioritize(coroutine_id id, priority level) {
    detail::block* const block = id.find();
    if (block == nullptr) return false;
    block->base = static_cast<uint8_t>(level.level());
    detail::refresh_level(block);
    return true;
  }

  // Destroys a coroutine's frame: at once, or when its poll ends if it runs (rules X1 to X4). False
  // if it was too late.
  bool cancel(coroutine_id id) {
    detail::block* const block = id.find();
    return block != nullptr && cancel_living(block);
  }

  // How many coroutines live: spawned and not exited.
  [[nodiscard]] unsigned live() const { return live_; }

  // At most so many may live; one more is refused by spawn (rule C6). Without it, their places are
  // the limit.
  void limit(unsigned coroutines) { beyond_limit_ = ~coroutines; }

  // ---- for the library's own parts ----

  // A new coroutine becomes ready (rule S2), unless there are too many.
  [[gnu::noinline]] bool start(detail::block* block, uint8_t level) {
    // Beyond the limit, the sum is more than there are numbers.
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

  // The wake of the running coroutine by itself or by a handler (rule W3).
  [[gnu::always_inline]] void remember_wake() { detail::poke(rings_.notes.each.woken, uint8_t{1}); }

  void set_level(detail::block* block, unsigned level) {
    critical masked;
    const bool in_ring = block->where() == detail::phase::queued;
    if (in_ring) rings_.remove(block);
    block->level = static_cast<uint8_t>(level);
    if (in_ring) rings_.push(block);
    // The running one is no longer at the head of the ring that turns.
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

  // The running coroutine has come to its end, and is suspended for the last time.
  void finish(detail::mark how) {
    detail::block* const block = current_;
    {
      critical masked;
      // Finishing counts, even after a cancel (rule X3).
      rings_.remove(block);
      rings_.notes.each.ends = done;
      block->flags = static_cast<uint8_t>((block->flags & detail::held) | detail::framed | how |
                                          static_cast<uint8_t>(detail::phase::exited));
    }
    --live_;
    if (detail::promise_of(block).waiters != nullptr) detail::end_waiters(block);
    if (!block->has(detail::held)) destroy(block);
  }

  // What the scheduler resumes next time: `leaf`, instead of what it has just resumed.
  void set_leaf(void* leaf) { *(leaf_link_ != nullptr ? leaf_link_ : &current_->leaf) = leaf; }

  // Resumes a part of the running coroutine that waits beside others of its parts; see await.hpp.
  void resume_part(void*& leaf) {
    void** const outer = detail::exchange(leaf_link_, &leaf);
    std::coroutine_handle<>::from_address(leaf).resume();
    leaf_link_ = outer;
  }

  detail::block* running_block() const { return current_; }

  static void destroy(detail::block* block) {
    std::coroutine_handle<>::from_address(block->frame()).destroy();
  }

 private:
  // How the running coroutine goes on after its poll.
  enum ending : uint8_t { goes_on, cancelled, done };
  // The common end of a poll: it was woken, and nothing else has happened.
  static constexpr uint32_t yielded = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 1 : 1u << 24;

  // One poll; true if it ended in the common way: by a yield, and no other level has become ready
  // meanwhile. That look is also the moment at which the next pick is decided. Otherwise end_poll()
  // is due.
  [[gnu::always_inline]] bool resume(detail::block* block) {
    std::coroutine_handle<>::from_address(block->leaf).resume();
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

  // In this order: a handler that wakes the coroutine in between is heard by the poll that is about
  // to begin.
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
        // Once it is blocked and handlers may come, one may make it ready again: no look at it
        // after that.
        rings_.notes.each.woken != 0 ? rings_.push(block) : block->add(detail::waits);
      }
      rings_.notes.all = 0;
    }
    if (how == cancelled) drop_cancelled_(*this, block);
  }

  // A living coroutine exits without an output, and its future is dropped.
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

  // At the head of its ring while it runs. Null while the scheduler isn't in a loop; what ran last,
  // between two polls of a loop.
  detail::block* current_ = nullptr;
  // Drops the future of the coroutine that ran; set by whoever cancels it, so that a program
  // without cancelling carries no code for it.
  void (*drop_cancelled_)(scheduler&, detail::block*) = nullptr;
  // Where the leaf of what runs is kept; null for the running block's own.
  void** leaf_link_ = nullptr;
  unsigned live_ = 0;
  // The complement of the limit: no limit is 0, so that the scheduler begins as zeros and takes no
  // room in flash.
  unsigned beyond_limit_ = 0;
  // Last: see rings.
  detail::rings rings_;
};

// The program's scheduler.
inline constinit scheduler executor;

// The running coroutine; a stale identifier outside.
[[nodiscard]] inline coroutine_id current() { return executor.current(); }
// See scheduler::wake.
inline bool wake(coroutine_id id) { return executor.wake(id); }
// See scheduler::reprioritize.
inline bool reprioritize(coroutine_id id, priority level) {
  return executor.reprioritize(id, level);
}
// See scheduler::cancel.
inline bool cancel(coroutine_id id) { return executor.cancel(id); }

namespace detail {
inline void set_level(block* changed, unsigned level) { executor.set_level(changed, level); }
inline void wake(block* woken) {
  critical masked;
  executor.wake_masked(woken);
}
}  // namespace detail

}  // namespace corank
