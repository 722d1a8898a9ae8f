// A queue of messages with a fixed capacity (contract N9, N10).
#pragma once

#include "queue.hpp"

namespace corank {

// Delivers messages in the order in which they were sent. An interrupt handler may call try_send()
// and try_receive().
template <class T, size_t Capacity>
class channel {
  static_assert(Capacity >= 1, "corank: a channel has room for at least one message");

 public:
  constexpr channel() : room_(Capacity), there_(0) {}
  channel(const channel&) = delete;
  ~channel()
    requires(detail::trivially_destroyed<T>)
  = default;
  ~channel() {
    while (try_receive()) {
    }
  }

  // A wait for room, and then a send. Its poll() sends as soon as there is room.
  class send_future : public awaitable<send_future> {
   public:
    send_future(channel& to, T message) : to_(&to), message_(detail::move(message)) {}
    send_future(send_future&&) = default;
    ~send_future() { to_->room_.leave(entry_); }
    bool poll() {
      if (entry_.state == detail::entry_state::used) return true;
      if (!to_->room_.poll(entry_)) return false;
      entry_.state = detail::entry_state::used;
      to_->put(detail::move(message_));
      return true;
    }
    void take() {}

   private:
    channel* to_;
    T message_;
    detail::entry entry_;
  };

  // A wait for a message. Its output is the message.
  class receive_future : public awaitable<receive_future> {
   public:
    explicit receive_future(channel& from) : from_(&from) {}
    receive_future(receive_future&&) = default;
    ~receive_future() { from_->there_.leave(entry_); }
    bool poll() { return from_->there_.poll(entry_); }
    T take() {
      entry_.take();
      return from_->get();
    }

   private:
    channel* from_;
    detail::entry entry_;
  };

  // Waits for room. A send that is destroyed before it is ready has sent nothing.
  [[nodiscard]] send_future send(T message) { return send_future(*this, detail::move(message)); }
  // Waits for a message. It stays in the channel until take().
  [[nodiscard]] receive_future receive() { return receive_future(*this); }

  // Sends a message if there is room. Returns false otherwise.
  bool try_send(T message) {
    if (!room_.try_take()) return false;
    put(detail::move(message));
    return true;
  }
  // Receives a message if there is one. Returns the error otherwise.
  result<T, unit> try_receive() {
    if (!there_.try_take()) return failure{unit{}};
    return get();
  }

 private:
  void put(T message) {
    {
      critical masked;
      new (at(first_ + count_), detail::in_storage{}) T(detail::move(message));
      ++count_;
    }
    there_.give();
  }

  T get() {
    T message = take_first();
    room_.give();
    return message;
  }

  T take_first() {
    critical masked;
    T* const first = static_cast<T*>(at(first_));
    T message = detail::move(*first);
    first->~T();
    first_ = (first_ + 1) % Capacity;
    --count_;
    return message;
  }

  void* at(size_t index) { return bytes_ + index % Capacity * sizeof(T); }

  detail::permits room_;
  detail::permits there_;
  size_t first_ = 0;
  size_t count_ = 0;
  // A member of a union needs no initial value in a constant, so a channel may be `constinit`.
  union {
    unit none_{};
    alignas(T) unsigned char bytes_[Capacity * sizeof(T)];
  };
};

}  // namespace corank
