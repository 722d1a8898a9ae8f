// A future of any kind in a box, and the locks and permits that a coroutine holds.
#pragma once

#include <corank/corank.hpp>

namespace replay {

// A future in a box. All kinds have one type, so that the coroutine that awaits them is small.
class boxed {
 public:
  boxed() = default;
  boxed(boxed&&) = delete;
  ~boxed() { clear(); }

  template <class Make>
  void fill(Make make) {
    using F = decltype(make());
    static_assert(sizeof(F) <= sizeof(room_), "a future is larger than the box");
    new (room_, corank::detail::in_storage{}) F(make());
    poll_ = [](void* f) { return static_cast<F*>(f)->poll(); };
    clear_ = [](void* f) { static_cast<F*>(f)->~F(); };
  }
  void clear() {
    if (clear_ != nullptr) corank::detail::exchange<void (*)(void*)>(clear_, nullptr)(room_);
  }
  bool poll() { return poll_(room_); }
  template <class F>
  F& as() {
    return *static_cast<F*>(static_cast<void*>(room_));
  }

 private:
  bool (*poll_)(void*) = nullptr;
  void (*clear_)(void*) = nullptr;
  alignas(max_align_t) unsigned char room_[40 * sizeof(void*)];
};

// The locks and permits that a coroutine holds, released in the contract's order: the latest first
// (rule X9).
class holdings {
 public:
  using lock_guard = corank::mutex<>::guard;
  using permit = corank::semaphore::permit;

  holdings() = default;
  holdings(holdings&&) = delete;
  ~holdings() {
    while (count_ > 0) drop(count_ - 1);
  }

  bool add(size_t which, lock_guard lock) {
    return has_room() && (new (next_guard(true, which), corank::detail::in_storage{})
                              lock_guard(corank::detail::move(lock)),
                          true);
  }
  bool add(size_t which, permit one) {
    return has_room() && (new (next_guard(false, which), corank::detail::in_storage{})
                              permit(corank::detail::move(one)),
                          true);
  }

  // Releases the latest lock or permit of a mutex or semaphore. Returns false if there is none.
  bool give_back(bool lock, size_t which) {
    for (size_t at = count_; at-- > 0;) {
      if (held_[at].lock != lock || held_[at].which != which) continue;
      drop(at);
      return true;
    }
    return false;
  }

 private:
  static constexpr size_t most = 6;
  struct one {
    bool lock;
    size_t which;
    alignas(void*) unsigned char guard[sizeof(void*)];
  };
  static_assert(sizeof(lock_guard) == sizeof(void*) && sizeof(permit) == sizeof(void*));

  bool has_room() const { return count_ < most; }
  void* next_guard(bool lock, size_t which) {
    one& added = held_[count_++];
    added.lock = lock;
    added.which = which;
    return added.guard;
  }
  // To move a guard is to move a pointer.
  void drop(size_t at) {
    one gone = held_[at];
    --count_;
    for (size_t next = at; next < count_; ++next) held_[next] = held_[next + 1];
    if (gone.lock) {
      static_cast<lock_guard*>(static_cast<void*>(gone.guard))->~lock_guard();
    } else {
      static_cast<permit*>(static_cast<void*>(gone.guard))->~permit();
    }
  }

  one held_[most];
  size_t count_ = 0;
};

}  // namespace replay
