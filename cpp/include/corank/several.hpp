// Waiting for several futures at once: `any` and `all`.
//
// Both take variables, which they refer to, and temporaries, which they keep:
//
//   auto byte = input.receive();
//   auto stop = shutdown.wait();
//   if (co_await corank::any(byte, stop) == 0) use(byte.take());
//
//   auto first = co_await corank::any(input.receive(), corank::time::sleep(5));
//   if (auto* byte = first.get<0>()) use(*byte);
//
//   auto [a, b] = co_await corank::all(one.lock(), other.lock());
//
// A future that was ready and whose output was not taken gives back what it obtained when it is
// destroyed: a lock, a permit, a message, a signal (rule X9). A variable is destroyed at the end of
// its scope, and a temporary with the `any`, the `all` or the `timeout` that keeps it.
#pragma once

#include "await.hpp"

namespace corank {

namespace detail {

// A future that `any` or `all` keeps, or the reference to one.
template <class F>
struct member_future {
  using output = value_t<decltype(instance<F>().take())>;
  explicit member_future(F&& kept) : future(move(kept)) {}
  bool poll() { return future.poll(); }
  output take() {
    if constexpr (is_void<decltype(instance<F>().take())>) {
      future.take();
      return {};
    } else {
      return future.take();
    }
  }
  F future;
};
template <class F>
struct member_future<F&> {
  // The output stays in the variable.
  using output = unit;
  explicit member_future(F& of) : future(&of) {}
  bool poll() { return future->poll(); }
  output take() { return {}; }
  F* future;
};

template <class F>
using output_of_member = typename member_future<F>::output;

// Several futures, polled in order.
template <class... Fs>
struct futures;
template <>
struct futures<> {
  static constexpr size_t none = ~size_t{0};
  size_t first_ready(size_t) { return none; }
  bool all_ready() { return true; }
};
template <class F, class... Rest>
struct futures<F, Rest...> {
  explicit futures(F&& first, Rest&&... others)
      : head(static_cast<F&&>(first)), rest(static_cast<Rest&&>(others)...) {}
  size_t first_ready(size_t at) { return head.poll() ? at : rest.first_ready(at + 1); }
  bool all_ready() {
    const bool ready = head.poll();
    return rest.all_ready() && ready;
  }

  member_future<F> head;
  [[no_unique_address]] futures<Rest...> rest;
};

template <size_t At, class T, class... Rest>
struct type_at : type_at<At - 1, Rest...> {};
template <class T, class... Rest>
struct type_at<0, T, Rest...> {
  using type = T;
};

template <class... Fs>
inline constexpr bool all_references = (is_lvalue_reference<Fs> && ...);

}  // namespace detail

// The index of the future that was ready first, with its output if `any` kept that future. Converts
// to the index.
template <class... Outputs>
class [[nodiscard]] first_ready {
 public:
  template <class... Fs>
  first_ready(size_t index, detail::futures<Fs...>& futures) : index_(index) {
    take(index, futures);
  }
  first_ready(first_ready&& other) : index_(other.index_) {
    visit<0, Outputs...>([&]<class T>(T* output) {
      new (output, detail::in_storage{}) T(detail::move(*other.template as<T>()));
    });
  }
  first_ready& operator=(first_ready&&) = delete;
  ~first_ready() {
    visit<0, Outputs...>([]<class T>(T* output) { output->~T(); });
  }

  // Returns the index of the future.
  [[nodiscard]] size_t index() const { return index_; }
  operator size_t() const { return index_; }
  // Returns the output of future number `At`, or null if another one was ready. It is a `unit` for
  // a future without an output, and for a variable: call that one's take().
  template <size_t At>
  [[nodiscard]] auto* get() {
    using output = typename detail::type_at<At, Outputs...>::type;
    return index_ == At ? as<output>() : nullptr;
  }

 private:
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes_);
  }
  template <class F, class... Rest>
  void take(size_t index, detail::futures<F, Rest...>& futures) {
    if (index == 0) {
      new (bytes_, detail::in_storage{}) detail::output_of_member<F>(futures.head.take());
    } else if constexpr (sizeof...(Rest) != 0) {
      take(index - 1, futures.rest);
    }
  }
  template <size_t At, class T, class... Rest, class Visit>
  void visit(Visit what) {
    if (index_ == At) {
      what(as<T>());
    } else if constexpr (sizeof...(Rest) != 0) {
      visit<At + 1, Rest...>(what);
    }
  }

  size_t index_;
  alignas(Outputs...) unsigned char bytes_[detail::largest(sizeof(Outputs)...)];
};

// The outputs of `all`, for structured bindings. A variable has a `unit` there: call its take().
template <class... Outputs>
struct outputs;
template <class A>
struct outputs<A> {
  A first;
};
template <class A, class B>
struct outputs<A, B> {
  A first;
  B second;
};
template <class A, class B, class C>
struct outputs<A, B, C> {
  A first;
  B second;
  C third;
};
template <class A, class B, class C, class D>
struct outputs<A, B, C, D> {
  A first;
  B second;
  C third;
  D fourth;
};

// Waits for the first of several futures. The output is its index if all of them are variables:
// then call its take(), and the others wait until they are destroyed. Otherwise it is a
// `first_ready`.
template <class... Fs>
  requires(future_like<detail::remove_reference_t<Fs>> && ...)
class any : public awaitable<any<Fs...>> {
 public:
  explicit any(Fs&&... futures) : futures_(static_cast<Fs&&>(futures)...) {}
  bool poll() { return (ready_ = futures_.first_ready(0)) != detail::futures<>::none; }
  [[nodiscard]] auto take() {
    if constexpr (detail::all_references<Fs...>) {
      return ready_;
    } else {
      return first_ready<detail::output_of_member<Fs>...>(ready_, futures_);
    }
  }

 private:
  detail::futures<Fs...> futures_;
  size_t ready_ = 0;
};
template <class... Fs>
any(Fs&&...) -> any<Fs...>;

// Waits until all of several futures are ready. Without an output if all of them are variables:
// then call their take(). Otherwise the output is `outputs`, for at most four futures.
template <class... Fs>
  requires(future_like<detail::remove_reference_t<Fs>> && ...)
class all : public awaitable<all<Fs...>> {
 public:
  explicit all(Fs&&... futures) : futures_(static_cast<Fs&&>(futures)...) {}
  bool poll() { return futures_.all_ready(); }
  auto take() {
    if constexpr (!detail::all_references<Fs...>) {
      static_assert(sizeof...(Fs) <= 4,
                    "corank: all() returns the outputs of at most four futures");
      return take_from(futures_);
    }
  }

 private:
  // Braces evaluate in order, and each output is constructed once.
  template <class... Gs>
  static auto take_from(detail::futures<Gs...>& of) {
    using result = outputs<detail::output_of_member<Gs>...>;
    if constexpr (sizeof...(Gs) == 1) {
      return result{of.head.take()};
    } else if constexpr (sizeof...(Gs) == 2) {
      return result{of.head.take(), of.rest.head.take()};
    } else if constexpr (sizeof...(Gs) == 3) {
      return result{of.head.take(), of.rest.head.take(), of.rest.rest.head.take()};
    } else {
      return result{of.head.take(), of.rest.head.take(), of.rest.rest.head.take(),
                    of.rest.rest.rest.head.take()};
    }
  }

  detail::futures<Fs...> futures_;
};
template <class... Fs>
all(Fs&&...) -> all<Fs...>;

}  // namespace corank
