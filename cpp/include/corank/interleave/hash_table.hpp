// A hash table whose batches of lookups hide the memory's latency.
//
//   corank::hash_table<uint64_t, uint64_t> table;
//   table.insert(7, 49);
//   std::vector<const uint64_t*> values = table.multi_find(keys);  // null for a missing key
//
// Open addressing with linear probing, at most 3/4 full. Keys and values are small and plain. The
// table has no locks: no other thread may use it during a change.
#pragma once

#include "blocks.hpp"

#include <memory>
#include <type_traits>

namespace corank {

// Mixes all bits of an integer; `std::hash` returns it unchanged.
struct mixed_hash {
  template <class Key>
    requires std::is_integral_v<Key>
  size_t operator()(Key key) const noexcept {
    // The finalizer of MurmurHash3 (public domain).
    auto bits = static_cast<uint64_t>(key);
    bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccd;
    bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53;
    return static_cast<size_t>(bits ^ (bits >> 33));
  }
};

// A hash table.
template <class Key, class Value, class Hash = mixed_hash>
class hash_table {
  static_assert(std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>,
                "corank: a hash_table's entries are copied as bytes");

  struct entry {
    Key key;
    Value value;
    bool used;
  };

 public:
  hash_table() = default;

  // Returns the number of keys.
  [[nodiscard]] size_t size() const noexcept { return size_; }
  // Returns the bytes of all entries.
  [[nodiscard]] size_t bytes() const noexcept { return room() * sizeof(entry); }

  // Makes room for `count` keys. Throws std::bad_alloc, without a change.
  void reserve(size_t count) {
    size_t room = 16;
    while (room * 3 / 4 < count) room *= 2;
    if (entries_ != nullptr && room <= this->room()) return;
    auto old = std::exchange(entries_, std::make_unique<entry[]>(room));
    const size_t old_room = old != nullptr ? this->room() : 0;
    mask_ = room - 1;
    for (size_t at = 0; at < old_room; ++at)
      if (old[at].used) entries_[position_of(old[at].key)] = old[at];
  }

  // Adds a key with its value. Returns false, without a change, if the key exists. Throws as
  // reserve() does.
  bool insert(const Key& key, const Value& value) {
    reserve(size_ + 1);
    entry& in = entries_[position_of(key)];
    if (in.used) return false;
    in = {key, value, true};
    ++size_;
    return true;
  }

  // Removes a key. Returns false if it does not exist. Entries behind it move up, so that none is
  // hidden behind a hole.
  bool erase(const Key& key) {
    if (size_ == 0) return false;
    size_t hole = position_of(key);
    if (!entries_[hole].used) return false;
    for (size_t at = next(hole); entries_[at].used; at = next(at)) {
      // An entry may move into the hole if the hole is not in front of the entry's own position.
      const size_t wanted = Hash{}(entries_[at].key) & mask_;
      if (((at - wanted) & mask_) >= ((at - hole) & mask_)) {
        entries_[hole] = entries_[at];
        hole = at;
      }
    }
    entries_[hole].used = false;
    --size_;
    return true;
  }

  // Returns the value of a key, or null. Valid until the table changes.
  [[nodiscard]] const Value* find(const Key& key) const {
    if (size_ == 0) return nullptr;
    return value_from(Hash{}(key)&mask_, key);
  }

  // Finds a key as find() does, for a run of your own. The searched entries are neighbours, so it
  // yields once.
  strand<const Value*> find_in_turn(lane&, Key key) const {
    if (size_ == 0) co_return nullptr;
    const size_t first = Hash{}(key)&mask_;
    co_await prefetch(&entries_[first], sizeof(entry));
    co_return value_from(first, key);
  }

  // Looks up many keys and writes their values, in order, to out[0], out[1], … A missing key gives
  // null. Returns the number of lookups, less than all only after a request to stop.
  template <std::ranges::random_access_range Keys, std::random_access_iterator Output>
  size_t multi_find(Keys&& keys, Output out, interleave_options options = {}) const {
    if (options.bytes == 0) options.bytes = bytes();
    options.at_once = together;
    const auto first = std::ranges::begin(keys);
    return detail::interleave_blocks(
        static_cast<size_t>(std::ranges::distance(keys)),
        [&](lane& here, detail::supply& left, size_t block) {
          return find_block_in_turn(here, first, out, left, block);
        },
        // The copies spare the compiler a reload after each value that is written.
        [this, first, out](size_t from, size_t behind) {
          for (auto [keys, to] = std::pair(first, out); from < behind; ++from)
            to[from] = find(keys[from]);
        },
        options);
  }
  template <std::ranges::random_access_range Keys>
  [[nodiscard]] std::vector<const Value*> multi_find(Keys&& keys,
                                                     const interleave_options& options = {}) const {
    std::vector<const Value*> values(static_cast<size_t>(std::ranges::distance(keys)));
    values.resize(multi_find(keys, values.begin(), options));
    return values;
  }

 private:
  // Some keys are searched together, so that one switch serves them all.
  static constexpr size_t together = 8;
  template <class First, class Output>
  strand<> find_block_in_turn(lane&, First keys, Output out, detail::supply& left,
                              size_t count) const {
    while (count > 0) {
      const size_t now = std::min(together, count), at = left.take(now);
      count -= now;
      size_t positions[together];
      for (size_t each = 0; each < now; ++each) {
        positions[each] = Hash{}(keys[at + each]) & mask_;
        prefetch_now(entries_.get() + positions[each], sizeof(entry));
      }
      co_await turn{};
      for (size_t each = 0; each < now; ++each)
        out[at + each] = size_ != 0 ? value_from(positions[each], keys[at + each]) : nullptr;
    }
  }

  [[nodiscard]] size_t room() const noexcept { return entries_ != nullptr ? mask_ + 1 : 0; }
  [[nodiscard]] size_t next(size_t at) const noexcept { return (at + 1) & mask_; }

  // Returns the position of a key, or that of its insertion, searched from `at` on.
  [[nodiscard]] size_t position_from(size_t at, const Key& key) const {
    while (entries_[at].used && !(entries_[at].key == key)) at = next(at);
    return at;
  }
  [[nodiscard]] size_t position_of(const Key& key) const {
    return position_from(Hash{}(key)&mask_, key);
  }
  [[nodiscard]] const Value* value_from(size_t first, const Key& key) const {
    const entry& in = entries_[position_from(first, key)];
    return in.used ? &in.value : nullptr;
  }

  std::unique_ptr<entry[]> entries_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace corank
