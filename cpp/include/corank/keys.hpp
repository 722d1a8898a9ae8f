// Waiting for a number: two sides share only a key (contract K1 to K5).
#pragma once

#include "queue.hpp"

namespace corank {

// The error for a key that has no room.
struct keys_full {};

// Holds up to `Count` keys that have a waiter or an unused signal. Each operation checks each key
// once. An interrupt handler may call signal().
template <size_t Count>
class keys {
  struct slot {
    uint64_t key = 0;
    bool used = false;
    bool signalled = false;
    uint16_t granted = 0;  // granted and not yet taken
    detail::queue waiting;
  };

 public:
  constexpr keys() = default;

  // A wait for a signal of one key. Its output is the error if the key has no room.
  class wait_future : public awaitable<wait_future> {
   public:
    wait_future(keys& of, uint64_t key) : of_(&of), key_(key) {}
    wait_future(wait_future&&) = default;
    ~wait_future() { of_->leave(key_, entry_, false); }
    bool poll() { return of_->poll(key_, entry_, full_); }
    result<void, keys_full> take() {
      if (full_) return failure{keys_full{}};
      of_->leave(key_, entry_, true);
      return {};
    }

   private:
    keys* of_;
    uint64_t key_;
    bool full_ = false;
    detail::entry entry_;
  };

  // Waits for a signal of `key`.
  [[nodiscard]] wait_future wait(uint64_t key) { return wait_future(*this, key); }

  // Grants one waiter of `key`, now or later. Returns the error if there is no waiter and no room
  // to store the signal.
  result<void, keys_full> signal(uint64_t key) {
    critical masked;
    slot* const at = find(key, true);
    if (at == nullptr) return failure{keys_full{}};
    give(*at);
    return {};
  }

  // Returns a key that this object has not returned before.
  [[nodiscard]] uint64_t fresh() { return next_++; }

 private:
  slot* find(uint64_t key, bool add) {
    slot* empty = nullptr;
    for (slot& each : slots_) {
      if (each.used && each.key == key) return &each;
      if (!each.used && empty == nullptr) empty = &each;
    }
    if (!add || empty == nullptr) return nullptr;
    empty->key = key;
    empty->used = true;
    return empty;
  }

  static void tidy(slot& at) { at.used = at.signalled || at.granted != 0 || !at.waiting.empty(); }

  static void give(slot& at) {
    if (detail::entry* const next = at.waiting.take_most_urgent()) {
      ++at.granted;
      detail::queue::grant(*next);
    } else {
      at.signalled = true;
    }
  }

  bool poll(uint64_t key, detail::entry& mine, bool& full) {
    critical masked;
    if (mine.state != detail::entry_state::out) return mine.state == detail::entry_state::granted;
    slot* const at = find(key, true);
    full = at == nullptr;
    if (full) return true;
    if (!at->signalled) {
      at->waiting.push(mine);
      return false;
    }
    at->signalled = false;
    ++at->granted;
    mine.state = detail::entry_state::granted;
    return true;
  }

  // Ends a wait. A signal that was granted is used up, or is returned (rule K5).
  void leave(uint64_t key, detail::entry& mine, bool use_up) {
    critical masked;
    if (mine.state == detail::entry_state::out) return;
    slot& at = *find(key, false);
    if (mine.state == detail::entry_state::queued) {
      at.waiting.remove(mine);
    } else {
      --at.granted;
      mine.take();
      if (!use_up) give(at);
    }
    tidy(at);
  }

  slot slots_[Count]{};
  uint64_t next_ = 0;
};

}  // namespace corank
