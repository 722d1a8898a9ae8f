// Type functions, so that the library needs no standard library.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace corank {

// The value of an operation without a value, where a type is needed.
struct unit {
  friend constexpr bool operator==(unit, unit) { return true; }
};

namespace detail {

template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <class T>
using remove_reference_t = typename remove_reference<T>::type;

template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<const T> {
  using type = T;
};
template <class T>
using bare_t = typename remove_const<remove_reference_t<T>>::type;

template <bool Choice, class Yes, class No>
struct conditional {
  using type = Yes;
};
template <class Yes, class No>
struct conditional<false, Yes, No> {
  using type = No;
};
template <bool Choice, class Yes, class No>
using conditional_t = typename conditional<Choice, Yes, No>::type;

template <class T, class U>
inline constexpr bool same = false;
template <class T>
inline constexpr bool same<T, T> = true;
template <class T, class U>
concept same_type = same<T, U>;
template <class T>
inline constexpr bool is_void = same<T, void>;
template <class T>
inline constexpr bool is_reference = !same<T, remove_reference_t<T>>;
template <class T>
inline constexpr bool is_lvalue_reference = false;
template <class T>
inline constexpr bool is_lvalue_reference<T&> = true;
template <class...>
inline constexpr bool never = false;
// Tests whether a destructor does nothing. Then a static object needs no call of it.
#if defined(__clang__)
template <class T>
inline constexpr bool trivially_destroyed = __is_trivially_destructible(T);
#else
template <class T>
inline constexpr bool trivially_destroyed = __has_trivial_destructor(T);
#endif

// `T`, or `unit` for `void`.
template <class T>
using value_t = conditional_t<is_void<T>, unit, T>;

template <class T>
[[gnu::always_inline]] constexpr remove_reference_t<T>&& move(T&& value) noexcept {
  return static_cast<remove_reference_t<T>&&>(value);
}

template <class T>
[[gnu::always_inline]] constexpr T&& forward(remove_reference_t<T>& value) noexcept {
  return static_cast<T&&>(value);
}

template <class T>
[[gnu::always_inline]] constexpr T exchange(T& object, T value) noexcept {
  T old = move(object);
  object = move(value);
  return old;
}

// Returns the largest of several sizes.
template <class... Sizes>
constexpr size_t largest(Sizes... sizes) {
  size_t most = 0;
  ((most = sizes > most ? sizes : most), ...);
  return most;
}

// Returns a `T` in an operand that is not evaluated.
template <class T>
T& instance() noexcept;

// Chooses the placement form of `new` without <new>.
struct in_storage {};

}  // namespace detail
}  // namespace corank

[[nodiscard, gnu::always_inline]] inline void* operator new(size_t, void* storage,
                                                            corank::detail::in_storage) noexcept {
  return storage;
}
inline void operator delete(void*, void*, corank::detail::in_storage) noexcept {}
