// The keys of a tree's node.
#pragma once

#include "../meta.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

namespace corank::detail {

// Up to `Room` keys in order, copied as bytes. The count comes first, so a search reads no line
// behind the keys.
template <class Key, size_t Room>
class sorted_keys {
  // A few integers are all compared. A binary search takes at least as long: each step waits for
  // the one before, and for its line of memory.
  static constexpr bool compares_all = std::numeric_limits<Key>::is_integer && Room <= 32;

 public:
  sorted_keys() { pad(); }

  [[nodiscard]] [[gnu::always_inline]] size_t count() const noexcept { return count_; }
  [[nodiscard]] [[gnu::always_inline]] const Key& operator[](size_t at) const noexcept {
    return keys_[at];
  }

  // Returns the number of keys below this one, or not above it.
  [[nodiscard]] [[gnu::always_inline]] size_t below(const Key& key) const {
    return count_while([&key](const Key& each) { return each < key; });
  }
  [[nodiscard]] [[gnu::always_inline]] size_t not_above(const Key& key) const {
    return count_while([&key](const Key& each) { return !(key < each); });
  }
  // Tests whether the key is the one at `at`, which is at most the count. Without a branch, as it
  // cannot be predicted.
  [[nodiscard]] [[gnu::always_inline]] bool is_at(size_t at, const Key& key) const {
    const Key& there = keys_[at < Room ? at : Room - 1];
    return static_cast<unsigned>(at < count_) & static_cast<unsigned>(!(key < there));
  }

  // Inserts the key at `at`; there must be room.
  void insert(size_t at, const Key& key) {
    std::memmove(keys_ + at + 1, keys_ + at, (count_ - at) * sizeof(Key));
    keys_[at] = key;
    ++count_;
  }
  void erase(size_t at) {
    --count_;
    std::memmove(keys_ + at, keys_ + at + 1, (count_ - at) * sizeof(Key));
    pad();
  }
  // Moves the keys from `from` on to `to`, which must be empty.
  void move_to(sorted_keys& to, size_t from) {
    to.count_ = static_cast<uint32_t>(count_ - from);
    std::memcpy(to.keys_, keys_ + from, to.count_ * sizeof(Key));
    drop(from);
  }
  // Keeps only the first `count` keys.
  void drop(size_t count) {
    count_ = static_cast<uint32_t>(count);
    pad();
  }

 private:
  // Without a branch, as the direction of a search cannot be predicted.
  template <class Test>
  [[gnu::always_inline]] size_t count_while(Test test) const {
    if constexpr (compares_all) {
      size_t passed = 0;
      for (size_t at = 0; at < Room; ++at) passed += static_cast<size_t>(test(keys_[at]));
      return passed < count_ ? passed : count_;
    } else {
      const Key* from = keys_;
      size_t count = count_;
      for (; count > 1; count -= count / 2) {
        const bool right = test(from[count / 2 - 1]);
#if defined(__clang__)
        from = __builtin_unpredictable(right) ? from + count / 2 : from;
#else
        from += count / 2 * static_cast<size_t>(right);
#endif
      }
      return static_cast<size_t>(from - keys_) + static_cast<size_t>(count == 1 && test(*from));
    }
  }

  // If all keys are compared, fills the rest with the largest value.
  void pad() {
    if constexpr (compares_all)
      std::fill(keys_ + count_, keys_ + Room, std::numeric_limits<Key>::max());
  }

  uint32_t count_ = 0;
  Key keys_[Room];
};

}  // namespace corank::detail
