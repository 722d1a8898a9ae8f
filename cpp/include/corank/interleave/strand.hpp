// Strands: coroutines that take turns, so that their waits for memory overlap.
//
//   corank::strand<value> find(corank::lane& here, const tree& in, key wanted) {
//     const node* at = in.root();
//     while (!at->is_leaf()) {
//       at = at->child(wanted);
//       co_await corank::prefetch(at, sizeof(*at));
//     }
//     co_return at->value(wanted);
//   }
//
// The first parameter is the frame storage, as in every coroutine of this library. A strand that
// awaits another one calls it: the output and any exception go to the caller.
#pragma once

#include "lane.hpp"

#include <exception>
#include <utility>

namespace corank {

template <class T = void>
class strand;

namespace detail {

// The outcome of a strand: none yet, a value, or an exception.
template <class T>
class outcome {
 public:
  outcome() noexcept : nothing_{} {}
  outcome(const outcome&) = delete;
  outcome& operator=(const outcome&) = delete;
  ~outcome() { clear(); }

  template <class... Values>
  [[gnu::always_inline]] void succeed(Values&&... values) {
    new (&value_) value_t<T>{std::forward<Values>(values)...};
    state_ = state::value;
  }
  void fail(std::exception_ptr error) noexcept {
    clear();
    new (&error_) std::exception_ptr(std::move(error));
    state_ = state::error;
  }

  [[nodiscard]] bool failed() const noexcept { return state_ == state::error; }
  [[nodiscard]] std::exception_ptr error() noexcept { return std::move(error_); }

  // Returns the output, or throws the strand's exception.
  [[gnu::always_inline]] T take() {
#if defined(__cpp_exceptions)
    if (failed()) [[unlikely]]
      std::rethrow_exception(error());
#endif
    if constexpr (!is_void<T>) return std::move(value_);
  }

  // Resets the outcome to none.
  [[gnu::always_inline]] void clear() noexcept {
    if (state_ == state::value) value_.~value_t<T>();
    if (failed()) error_.~exception_ptr();
    state_ = state::none;
  }

 private:
  enum class state : uint8_t { none, value, error };

  union {
    unit nothing_;
    value_t<T> value_;
    std::exception_ptr error_;
  };
  state state_ = state::none;
};

struct strand_root {
  strand_root() = default;
  strand_root(const strand_root&) = delete;

  template <class... Others>
  [[gnu::always_inline]] static void* operator new(size_t bytes, lane& here, Others&...) {
    return here.take(bytes);
  }
  template <class Object, class... Others>
    requires(!same_type<bare_t<Object>, lane>)
  [[gnu::always_inline]] static void* operator new(size_t bytes, Object&, lane& here, Others&...) {
    return here.take(bytes);
  }
  template <class... Others>
  static void* operator new(size_t, Others&...) noexcept {
    static_assert(never<Others...>,
                  "corank: a strand's first parameter says where its frame lives: corank::lane&");
    return nullptr;
  }
  [[gnu::always_inline]] static void operator delete(void* frame, size_t bytes) noexcept {
    lane::give_back(frame, bytes);
  }

  // Does nothing on a yield: the lane stores its innermost frame, which changes only with calls.
  [[gnu::always_inline]] static void yield_strand(void*) noexcept {}

  // Makes `frame` the innermost frame of the lane of `mine`: that of a call, or of its caller.
  [[gnu::always_inline]] static void go_on_in(void* frame, void* mine) noexcept {
    lane::of_frame(mine)->leaf_ = frame;
  }

  // An item's strand begins at once, a call when it is awaited.
  struct first_suspend {
    bool item;
    bool await_ready() const noexcept { return item; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    void await_resume() const noexcept {}
  };
  first_suspend initial_suspend() const noexcept { return {lane_ != nullptr}; }

  // An item's frame destroys itself; a call's frame belongs to its strand.
  struct last_suspend {
    const strand_root& of;
    [[gnu::always_inline]] bool await_ready() const noexcept {
      if (of.lane_ != nullptr) of.lane_->item_ = nullptr;
      return of.lane_ != nullptr;
    }
    // A call that ends in its first resume has no caller stored: await_suspend() tests for that.
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> call) const noexcept {
      if (of.caller_ == nullptr) return std::noop_coroutine();
      go_on_in(of.caller_, call.address());
      return std::coroutine_handle<>::from_address(of.caller_);
    }
    void await_resume() const noexcept {}
  };
  last_suspend final_suspend() const noexcept { return {*this}; }

  // Returns the address of the outcome if the strand in this frame is an item's, or null.
  [[gnu::always_inline]] void* begin(void* frame) noexcept {
    lane* const owner = lane::of_frame(frame);
    if (!owner->begins_) return nullptr;
    owner->begins_ = false;
    owner->item_ = frame;
    lane_ = owner;
    owner->leaf_ = frame;
    return owner->outcome_;
  }

  // The lane of an item, or null for a call; and the frame that awaits the call.
  lane* lane_ = nullptr;
  void* caller_ = nullptr;
};

template <class T>
struct strand_promise_base : strand_root {
  outcome<T>* outcome_ = nullptr;
  void unhandled_exception() noexcept { outcome_->fail(std::current_exception()); }
};

template <class T>
struct strand_promise : strand_promise_base<T> {
  static_assert(!is_reference<T>,
                "corank: a strand returns a value; return a pointer instead of a reference");

  inline strand<T> get_return_object() noexcept;
  template <class U = T>
  [[gnu::always_inline]] void return_value(U&& output) {
    this->outcome_->succeed(std::forward<U>(output));
  }
};

template <>
struct strand_promise<void> : strand_promise_base<void> {
  inline strand<void> get_return_object() noexcept;
  [[gnu::always_inline]] void return_void() { outcome_->succeed(); }
};

}  // namespace detail

// A coroutine that takes turns with others while it waits for memory. Pass it to `interleave`, or
// await it in another strand; it begins there.
template <class T>
class [[nodiscard("a strand does nothing unless it is awaited or interleaved")]] strand {
 public:
  using promise_type = detail::strand_promise<T>;
  using value_type = T;
  using handle_type = std::coroutine_handle<promise_type>;

  strand(strand&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  strand& operator=(strand&&) = delete;
  ~strand() {
    if (frame_ != nullptr) handle().destroy();
  }

  // Awaits a call.
  class awaiter {
   public:
    explicit awaiter(strand& called) noexcept : called_(called) {}
    bool await_ready() const noexcept { return false; }
    // Runs the call until it waits or ends. Returns false if it has ended; the caller then
    // continues.
    bool await_suspend(std::coroutine_handle<> caller) const {
      const handle_type call = called_.handle();
      call.promise().outcome_ = &called_.outcome_;
      // Before the resume, as the call may call others and wait in those.
      detail::strand_root::go_on_in(call.address(), call.address());
      call.resume();
      if (call.done()) {
        detail::strand_root::go_on_in(caller.address(), call.address());
        return false;
      }
      call.promise().caller_ = caller.address();
      return true;
    }
    T await_resume() const { return called_.outcome_.take(); }

   private:
    strand& called_;
  };
  awaiter operator co_await() noexcept { return awaiter(*this); }

 private:
  friend promise_type;
  template <class Position, class End, class Work, class Output>
  friend class detail::turns;

  explicit strand(void* frame) noexcept : frame_(frame) {}
  handle_type handle() const noexcept { return handle_type::from_address(frame_); }
  // Releases an item's frame, which its lane owns.
  void release() noexcept { frame_ = nullptr; }

  void* frame_;
  detail::outcome<T> outcome_;
};

namespace detail {

template <class T>
strand<T> strand_promise<T>::get_return_object() noexcept {
  void* const frame = std::coroutine_handle<strand_promise>::from_promise(*this).address();
  this->outcome_ = static_cast<outcome<T>*>(this->begin(frame));
  return strand<T>(frame);
}
inline strand<void> strand_promise<void>::get_return_object() noexcept {
  void* const frame = std::coroutine_handle<strand_promise>::from_promise(*this).address();
  outcome_ = static_cast<outcome<void>*>(begin(frame));
  return strand<void>(frame);
}

}  // namespace detail
}  // namespace corank
