// A result or an error, as a value.
#pragma once

#include "meta.hpp"
#include "port.hpp"

namespace corank {

// Marks the error of a result: `return failure{spawn_error::table_full};`.
template <class E>
struct failure {
  E error;
};
template <class E>
failure(E) -> failure<E>;

// Holds either a `T` or an `E`. `T` may be `void`. Access to the absent one ends the program
// (`port::fatal`).
template <class T, class E>
class [[nodiscard]] result {
 public:
  using value_type = detail::value_t<T>;
  using error_type = E;

  constexpr result()
    requires detail::is_void<T>
      : value_{}, good_(true) {}
  constexpr result(value_type value) : value_(detail::move(value)), good_(true) {}
  constexpr result(failure<E> failed) : error_(detail::move(failed.error)), good_(false) {}

  constexpr result(result&& other) : none_{}, good_(other.good_) { take(other); }
  constexpr result& operator=(result&& other) {
    if (this != &other) {
      clear();
      good_ = other.good_;
      take(other);
    }
    return *this;
  }
  constexpr ~result()
    requires(detail::trivially_destroyed<value_type> && detail::trivially_destroyed<E>)
  = default;
  constexpr ~result() { clear(); }

  // Tests whether there is a value.
  [[nodiscard]] constexpr bool has_value() const { return good_; }
  constexpr explicit operator bool() const { return good_; }

  // Returns the value. Ends the program if there is an error.
  constexpr value_type& value() & { return expect(), value_; }
  constexpr const value_type& value() const& { return expect(), value_; }
  constexpr value_type value() && { return expect(), detail::move(value_); }
  constexpr value_type& operator*() & { return value(); }
  constexpr value_type operator*() && { return detail::move(*this).value(); }
  constexpr value_type* operator->() { return &value(); }
  // Returns the value, or `other` if there is an error.
  constexpr value_type value_or(value_type other) && {
    return good_ ? detail::move(value_) : detail::move(other);
  }

  // Returns the error. Ends the program if there is a value.
  constexpr const E& error() const {
    if (good_) port::fatal("corank: result::error() of a result that is no error");
    return error_;
  }

 private:
  constexpr void expect() const {
    if (!good_) port::fatal("corank: result::value() of an error");
  }
  constexpr void clear() {
    if (good_) {
      value_.~value_type();
    } else {
      error_.~E();
    }
  }
  constexpr void take(result& other) {
    if (good_) {
      new (&value_, detail::in_storage{}) value_type(detail::move(other.value_));
    } else {
      new (&error_, detail::in_storage{}) E(detail::move(other.error_));
    }
  }

  union {
    unit none_;
    value_type value_;
    E error_;
  };
  bool good_;
};

}  // namespace corank
