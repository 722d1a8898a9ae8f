// Coroutines: `task`, and `join_handle` for one that was spawned (contract S2, X1 to X9).
//
//   corank::task<int> measure(corank::in<measure_slot>, channel c);
//
//   int x = co_await measure({}, c);
//       a call: runs as a part of the calling coroutine, at its level
//   auto handle = corank::spawn(corank::priority{5}, measure({}, c));
//       a coroutine of its own
#pragma once

#include "await.hpp"
#include "storage.hpp"

namespace corank {

// The reason for which spawn() failed. The arguments have been destroyed.
enum class spawn_error : uint8_t {
  no_storage,  // its slot or pool is in use; with GCC's -O0 also: the frame does not fit
  table_full,  // scheduler::limit() is reached
};

// The reason for which a coroutine has no output.
enum class join_error : uint8_t { cancelled, panicked };

template <class T = void>
class task;
template <class T = void>
class join_handle;

namespace detail {

struct promise_root : promise_base {
  // Marks a coroutine whose first parameter is frame storage; see storage.hpp.
  using has_frame_storage = void;

  promise_root() = default;
  promise_root(const promise_root&) = delete;

  block* mine() {
    void* promise = static_cast<promise_base*>(this);
    // For the compiler, the memory in front of the promise is not part of it.
    asm("" : "+r"(promise));
    return block::of_frame(static_cast<frame_head*>(promise) - 1);
  }

  // Returns the block as mine() does. The promise's type is known here, so the offset is a
  // constant.
  template <class Promise>
  [[gnu::always_inline]] static block* in_front_of(Promise& promise) {
    return block::of_frame(std::coroutine_handle<Promise>::from_promise(promise).address());
  }

  // Takes the frame from the storage that the first parameter names. In a member function or a
  // lambda, that parameter follows the object.
  template <frame_storage P, class... Others>
  [[gnu::always_inline]] static void* operator new(size_t size, P& where, Others&...) noexcept {
    return take_storage(size, where);
  }
  template <class Object, frame_storage P, class... Others>
    requires(!frame_storage<Object>)
  [[gnu::always_inline]] static void* operator new(size_t size, Object&, P& where,
                                                   Others&...) noexcept {
    return take_storage(size, where);
  }
  template <class... Others>
  static void* operator new(size_t, Others&...) noexcept {
    static_assert(never<Others...>,
                  "corank: a coroutine's first parameter says where its frame lives: "
                  "corank::in<a_slot>, a corank::slot& or a corank::pool&");
    return nullptr;
  }
  // Wakes the joiners, after everything in the frame has been destroyed and its locks are released
  // (rules X6, X9). This is the last action of a frame, so the compiler can jump here. A destructor
  // would need a prologue in every coroutine.
  [[gnu::noinline]] static void operator delete(void* frame, size_t) noexcept {
    block* const head = block::of_frame(frame);
    if (promise_of(head).waiters != nullptr) end_waiters(head);
    head->give_up(framed);
  }

  // Requeues the running task for prefetch.hpp: a task that waits for memory yields.
  static void yield_strand(void*) noexcept { executor.remember_wake(); }

  std::suspend_always initial_suspend() const noexcept { return {}; }

  struct last_suspend {
    constexpr bool await_ready() const noexcept { return false; }
    template <class Promise>
    scheduler::jump await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      return leave(block::of_frame(self.address()));
    }
    constexpr void await_resume() const noexcept {}
  };
  last_suspend final_suspend() const noexcept { return {}; }

  void unhandled_exception() noexcept {
#if defined(__cpp_exceptions)
    mine()->add(panicked);
#endif
  }

  // Ends the coroutine in `left` and continues in its caller's frame, if it has one.
  [[gnu::noinline]] static scheduler::jump leave(block* left) noexcept {
    const mark how = left->has(panicked) ? panicked : finished;
    if (left->where() == phase::queued) {
      // The frame may be gone after this and must not be read.
      executor.finish(how);
    } else {
      left->add(how);
      if (left->leaf != nullptr) {
        executor.set_leaf(left->leaf);
        return executor.jump_to(left->leaf);
      }
    }
    return nowhere();
  }

  // Returns to the scheduler.
  template <bool TailCalls = port::tail_calls>
  static scheduler::jump_by<TailCalls> nowhere() noexcept {
    if constexpr (TailCalls) {
      static constinit frame_head no_frame{[](frame_head*) {}, [](frame_head*) {}};
      return std::coroutine_handle<>::from_address(&no_frame);
    }
  }

  // Continues the running coroutine in `called`.
  [[gnu::noinline]] static scheduler::jump enter(block* called, void* caller) {
    if (called == nullptr)
      port::fatal(
          "corank: a coroutine was awaited whose slot is taken: await checked() where that can "
          "happen");
    called->leaf = caller;
    executor.set_leaf(called->frame());
    return executor.jump_to(called->frame());
  }

  // Drops the last reference of a task or handle.
  [[gnu::noinline]] static void drop(block* held_one) {
    // A living coroutine continues, detached (rule X7).
    if ((held_one->give_up(held) & (framed | alive)) == framed) scheduler::destroy(held_one);
  }
};

// A promise with storage for the output.
template <class T>
struct promise : promise_root {
  static_assert(!is_reference<T>,
                "corank: a coroutine returns a value; return a pointer instead of a reference");
  static_assert(alignof(T) <= 2 * sizeof(void*),
                "corank: an output needs no larger alignment than two pointers");

  task<T> get_return_object() noexcept { return task<T>(in_front_of(*this)); }
  static task<T> get_return_object_on_allocation_failure() noexcept { return task<T>(nullptr); }

  promise() : none{} {}
  ~promise() {
    if (mine()->has(finished)) value.~T();
  }
  // The default type is `T`, so that `co_return {}` works.
  template <class U = T>
  void return_value(U&& output) {
    new (&value, in_storage{}) T(detail::forward<U>(output));
  }
  T take() { return detail::move(value); }

  union {
    unit none;
    T value;
  };
};

template <>
struct promise<void> : promise_root {
  inline task<void> get_return_object() noexcept;
  static inline task<void> get_return_object_on_allocation_failure() noexcept;
  void return_void() const noexcept {}
  void take() const {}
};

template <class T>
promise<T>& promise_in(block* of) {
  return *static_cast<promise<T>*>(&promise_of(of));
}

struct panic {};

// Returns the output of a finished call.
template <class T>
[[gnu::always_inline]] inline T output_of(block* called) {
#if defined(__cpp_exceptions)
  if (called->has(panicked)) throw panic{};
#endif
  return promise_in<T>(called).take();
}

template <class T>
class checked_call;
template <class T>
class part;

}  // namespace detail

// A coroutine that has not begun. Await it or spawn it. Destroying it destroys the frame.
template <class T>
class [[nodiscard("a coroutine does nothing unless it is awaited or spawned")]] task {
 public:
  using promise_type = detail::promise<T>;

  task(task&& other) noexcept : block_(detail::exchange<detail::block*>(other.block_, nullptr)) {}
  task& operator=(task&&) = delete;
  ~task() {
    if (block_ != nullptr) promise_type::drop(block_);
  }

  // Tests whether the coroutine got frame storage.
  explicit operator bool() const { return block_ != nullptr; }

  // Runs the call and returns its output. Ends the program if the call got no frame storage.
  constexpr bool await_ready() const noexcept { return false; }
  scheduler::jump await_suspend(std::coroutine_handle<> caller) {
    return promise_type::enter(block_, caller.address());
  }
  T await_resume() {
    // enter() has excluded null. This saves a test where the task is destroyed, after every call.
    if (block_ == nullptr) __builtin_unreachable();
    return detail::output_of<T>(block_);
  }

  // Makes an awaitable that returns the output, or the error if the call got no frame storage.
  detail::checked_call<T> checked() && { return detail::checked_call<T>(detail::move(*this)); }

 private:
  friend detail::promise<T>;
  friend class detail::part<T>;
  friend class detail::checked_call<T>;
  template <class U>
  friend result<join_handle<U>, spawn_error> spawn(priority level, task<U> work);

  explicit task(detail::block* block) : block_(block) {}

  detail::block* block_;
};

inline task<void> detail::promise<void>::get_return_object() noexcept {
  return task<void>(in_front_of(*this));
}
inline task<void> detail::promise<void>::get_return_object_on_allocation_failure() noexcept {
  return task<void>(nullptr);
}

namespace detail {

template <class T>
class checked_call {
 public:
  explicit checked_call(task<T> call) : call_(move(call)) {}
  bool await_ready() const { return !call_; }
  scheduler::jump await_suspend(std::coroutine_handle<> caller) {
    return call_.await_suspend(caller);
  }
  result<T, spawn_error> await_resume() {
    if (!call_) return failure{spawn_error::no_storage};
    if constexpr (is_void<T>) {
      return {};
    } else {
      return call_.await_resume();
    }
  }

 private:
  task<T> call_;
};

// A call as a future, so that a coroutine can wait for several.
template <class T>
class part : public awaitable<part<T>> {
 public:
  explicit part(task<T> call) : call_(move(call)) {
    if (!call_) port::fatal("corank: a coroutine was polled whose slot is taken");
    leaf_ = call_.block_->frame();
    call_.block_->leaf = nullptr;
  }
  bool poll() {
    if (!has_ended()) executor.resume_part(leaf_);
    return has_ended();
  }
  T take() { return output_of<T>(call_.block_); }

 private:
  bool has_ended() const { return call_.block_->has(finished) || call_.block_->has(panicked); }

  task<T> call_;
  void* leaf_;
};

}  // namespace detail

// Converts a call into a future, for any, all and timeout.
template <class T>
detail::part<T> as_future(task<T> call) {
  return detail::part<T>(detail::move(call));
}
template <future_like F>
F as_future(F future) {
  return future;
}

// Waits until a coroutine has exited. Meanwhile that coroutine inherits the waiting one's priority
// (rules X5, I1).
template <class T>
class join : public awaitable<join<T>> {
 public:
  explicit join(detail::block* of) : of_(of) {}
  bool poll() {
    if (of_->where() == detail::phase::exited) return true;
    waiter_.wait(executor.running_block(), of_);
    return false;
  }
  result<T, join_error> take() {
    waiter_.end();
    if (!of_->has(detail::finished))
      return failure{of_->has(detail::panicked) ? join_error::panicked : join_error::cancelled};
    if (of_->has(detail::taken)) port::fatal("corank: a coroutine's output was taken twice");
    of_->add(detail::taken);
    if constexpr (detail::is_void<T>) {
      return {};
    } else {
      return detail::promise_in<T>(of_).take();
    }
  }

 private:
  detail::block* of_;
  detail::waiter waiter_;
};

// Owns the result of a coroutine. Await it to get the output. Destroying it detaches the coroutine.
template <class T>
class [[nodiscard("to destroy the handle is to detach: say so with detach()")]] join_handle {
 public:
  join_handle() = default;
  join_handle(join_handle&& other) noexcept
      : block_(detail::exchange<detail::block*>(other.block_, nullptr)) {}
  join_handle& operator=(join_handle&& other) noexcept {
    if (this != &other) {
      detach();
      block_ = detail::exchange<detail::block*>(other.block_, nullptr);
    }
    return *this;
  }
  ~join_handle() { detach(); }

  // Returns the identifier of the coroutine.
  [[nodiscard]] coroutine_id id() const { return coroutine_id(block_); }
  // Tests whether the coroutine has exited.
  [[nodiscard]] bool has_exited() const { return block_->where() == detail::phase::exited; }
  // Cancels the coroutine as scheduler::cancel() does.
  bool cancel() const { return executor.cancel(id()); }
  // Sets the base level as scheduler::reprioritize() does.
  bool reprioritize(priority level) const { return executor.reprioritize(id(), level); }

  // Lets the coroutine continue and discards its result (rule X7).
  void detach() {
    if (block_ != nullptr)
      detail::promise_root::drop(detail::exchange<detail::block*>(block_, nullptr));
  }

  // Returns a future of the result: `co_await handle.wait()`, or just `co_await handle`.
  [[nodiscard]] join<T> wait() const { return join<T>(block_); }
  join<T> operator co_await() const { return wait(); }

  // Returns the result of a coroutine that has exited, for code outside coroutines.
  result<T, join_error> take() const {
    if (!has_exited())
      port::fatal("corank: join_handle::take() of a coroutine that has not exited");
    return join<T>(block_).take();
  }

 private:
  template <class U>
  friend result<join_handle<U>, spawn_error> spawn(priority level, task<U> work);
  explicit join_handle(detail::block* block) : block_(block) {}

  detail::block* block_ = nullptr;
};

// Adds a coroutine (rules S2, C6). Call it from a coroutine or from thread mode, not from an
// interrupt handler.
template <class T>
[[gnu::always_inline]] inline result<join_handle<T>, spawn_error> spawn(priority level,
                                                                        task<T> work) {
  detail::block* const block = work.block_;
  if (block == nullptr) return failure{spawn_error::no_storage};
  if (!executor.start(block, static_cast<uint8_t>(level.level())))
    return failure{spawn_error::table_full};
  work.block_ = nullptr;
  return join_handle<T>(block);
}

}  // namespace corank
