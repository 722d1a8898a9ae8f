// A semaphore: a number of permits (contract N1 to N6).
#pragma once

#include "queue.hpp"

namespace corank {

// Grants permits. An interrupt handler may call release(). O(1) without waiters, otherwise
// O(waiting).
class semaphore {
 public:
  // Makes a semaphore with `permits` free permits.
  constexpr explicit semaphore(uint32_t permits) : permits_(permits) {}

  // A permit, released by its destructor.
  class [[nodiscard]] permit {
   public:
    explicit permit(semaphore* of) : of_(of) {}
    permit(permit&& other) noexcept : of_(detail::exchange<semaphore*>(other.of_, nullptr)) {}
    permit& operator=(permit&& other) noexcept {
      if (this != &other) {
        release();
        of_ = detail::exchange<semaphore*>(other.of_, nullptr);
      }
      return *this;
    }
    ~permit() { release(); }
    // Releases the permit early.
    void release() {
      if (of_ != nullptr) detail::exchange<semaphore*>(of_, nullptr)->release();
    }
    // Drops the permit without a release.
    void forget() { of_ = nullptr; }

   private:
    semaphore* of_;
  };

  // A wait for a permit. Its output is the permit.
  class acquire_future : public awaitable<acquire_future> {
   public:
    explicit acquire_future(semaphore& of) : of_(&of) {}
    acquire_future(acquire_future&&) = default;
    ~acquire_future() { of_->permits_.leave(entry_); }
    bool poll() { return of_->permits_.poll(entry_); }
    permit take() {
      entry_.take();
      return permit(of_);
    }

   private:
    semaphore* of_;
    detail::entry entry_;
  };

  // Waits for a permit.
  [[nodiscard]] acquire_future acquire() { return acquire_future(*this); }
  // Takes a permit if one is free; release() returns it.
  [[nodiscard]] bool try_acquire() { return permits_.try_take(); }
  // Adds a permit. From any context.
  void release() { permits_.give(); }
  // Returns the number of free permits. From any context.
  [[nodiscard]] uint32_t available() const { return permits_.free(); }

 private:
  detail::permits permits_;
};

}  // namespace corank
