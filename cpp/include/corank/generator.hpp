// A generator: a coroutine that yields values to an ordinary loop.
//
//   corank::generator<int> squares(corank::in<squares_slot>, int n) {
//     for (int i = 0; i < n; ++i) co_yield i * i;
//   }
//   for (int square : squares({}, 5)) use(square);
#pragma once

#include "task.hpp"

namespace corank {

// A coroutine outside the scheduler: it runs when the loop asks for the next value, and cannot
// await. Its first parameter is its frame storage.
template <class T>
class [[nodiscard]] generator {
 public:
  struct promise_type : detail::promise_root {
    generator get_return_object() noexcept { return generator(this->mine()); }
    static generator get_return_object_on_allocation_failure() noexcept {
      return generator(nullptr);
    }
    std::suspend_always final_suspend() const noexcept { return {}; }
    std::suspend_always yield_value(const T& value) noexcept {
      current = &value;
      return {};
    }
    void return_void() noexcept { current = nullptr; }
    template <class Awaited>
    void await_transform(Awaited&&) {
      static_assert(detail::never<Awaited>,
                    "corank: a generator can't await; make it a task with a channel");
    }

    const T* current = nullptr;
  };

  generator(generator&& other) noexcept
      : block_(detail::exchange<detail::block*>(other.block_, nullptr)) {}
  generator& operator=(generator&&) = delete;
  ~generator() {
    if (block_ != nullptr) detail::promise_root::drop(block_);
  }

  // Tests whether the generator got frame storage.
  explicit operator bool() const { return block_ != nullptr; }

  // Returns the next value, valid until the next call. Returns null at the end, and without frame
  // storage.
  const T* next() {
    if (block_ == nullptr) return nullptr;
    const auto handle = std::coroutine_handle<promise_type>::from_address(block_->frame());
    if (!handle.done()) handle.resume();
    return handle.promise().current;
  }

  struct end_type {};
  class iterator {
   public:
    explicit iterator(generator* of) : of_(of), value_(of->next()) {}
    const T& operator*() const { return *value_; }
    iterator& operator++() {
      value_ = of_->next();
      return *this;
    }
    bool operator!=(end_type) const { return value_ != nullptr; }

   private:
    generator* of_;
    const T* value_;
  };
  iterator begin() { return iterator(this); }
  end_type end() const { return {}; }

 private:
  explicit generator(detail::block* block) : block_(block) {}
  detail::block* block_;
};

}  // namespace corank
