// A B+ tree whose batches of lookups and scans hide the memory's latency.
//
//   corank::btree<uint64_t, uint64_t> tree;
//   tree.insert(7, 49);
//   std::vector<const uint64_t*> values = tree.multi_get(keys);       null where a key is not there
//   long sum = tree.fold(0L, [](long sum, uint64_t, uint64_t value) { return sum + value; }, std::plus<>{});
//
// Keys and values are small and plain: nodes are copied as bytes. Not for several threads while one of them changes the tree.
#pragma once

#include "blocks.hpp"
#include "nodes.hpp"

#include <cstring>
#include <span>
#include <type_traits>

namespace corank {

// `LeafBytes` and `InnerBytes` are sizes of nodes, whole cache lines. Larger leaves need fewer misses for a scan, and more lines for a lookup.
template <class Key, class Value, size_t LeafBytes = 256, size_t InnerBytes = 256>
class btree {
  static_assert(std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>, "corank: a btree's nodes are copied as bytes");

  struct leaf;
  static constexpr size_t leaf_room = (LeafBytes - 2 * sizeof(void*)) / (sizeof(Key) + sizeof(Value));
  static constexpr size_t inner_room = (InnerBytes - sizeof(void*) - alignof(Key)) / (sizeof(Key) + sizeof(void*));
  static_assert(leaf_room >= 2 && inner_room >= 3, "corank: a btree's nodes need room for some keys");

  struct leaf {
    leaf* next;
    uint32_t count;
    Key keys[leaf_room];
    Value values[leaf_room];
  };
  // Keys below keys[i] are below children[i]; there is one child more than keys.
  struct inner {
    uint32_t count;
    Key keys[inner_room];
    void* children[inner_room + 1];
  };
  static_assert(sizeof(leaf) <= LeafBytes && sizeof(inner) <= InnerBytes);

 public:
  btree() : root_(leaves_.take(leaf{})) {}
  btree(const btree&) = delete;
  btree& operator=(const btree&) = delete;

  // How many keys there are.
  [[nodiscard]] size_t size() const noexcept { return size_; }
  // What the nodes take.
  [[nodiscard]] size_t bytes() const noexcept { return leaves_.bytes() + inners_.bytes(); }
  // How many keys fit into a leaf.
  static constexpr size_t keys_per_leaf() noexcept { return leaf_room; }

  // Adds the key with this value, unless it is there: then nothing changes and the result is false. Throws std::bad_alloc, and then nothing has changed.
  bool insert(const Key& key, const Value& value) {
    path way;
    leaf* const in = descend(key, &way);
    const size_t at = below(in->keys, in->count, key);
    if (at < in->count && !(key < in->keys[at])) return false;
    if (in->count < leaf_room) {
      insert_at(in, at, key, value);
    } else {
      split(in, at, key, value, way);
    }
    ++size_;
    return true;
  }

  // Removes the key; false: it was not there. Its place is free for keys nearby; nodes are not joined.
  bool erase(const Key& key) {
    leaf* const in = descend(key, nullptr);
    const size_t at = below(in->keys, in->count, key);
    if (at == in->count || key < in->keys[at]) return false;
    --in->count;
    std::memmove(in->keys + at, in->keys + at + 1, (in->count - at) * sizeof(Key));
    std::memmove(in->values + at, in->values + at + 1, (in->count - at) * sizeof(Value));
    --size_;
    return true;
  }

  // Fills an empty tree with pairs that are sorted by key, each key once, in full nodes. `order(i)` says where the memory of the i-th leaf lies among all leaves:
  // a permutation, as a tree has that has grown by chance.
  template <class Order>
  void fill(std::span<const std::pair<Key, Value>> pairs, Order order) {
    const size_t count = (pairs.size() + leaf_room - 1) / leaf_room;
    if (count == 0) return;
    leaf* const all = leaves_.take_many(count);
    std::vector<std::pair<Key, void*>> level(count);
    leaf* last = nullptr;
    for (size_t at = 0; at < count; ++at) {
      leaf* const in = leaves_.at(all, order(at));
      *in = leaf{};
      for (const auto& [key, value] : pairs.subspan(at * leaf_room, std::min(leaf_room, pairs.size() - at * leaf_room)))
        insert_at(in, in->count, key, value);
      if (last != nullptr) last->next = in;
      last = in;
      level[at] = {in->keys[0], in};
    }
    size_ = pairs.size();
    for (height_ = 0; level.size() > 1; ++height_) {
      std::vector<std::pair<Key, void*>> above;
      for (size_t at = 0; at < level.size();) {
        // The last two share, so that none has a single child.
        size_t children = std::min(inner_room + 1, level.size() - at);
        if (level.size() - at - children == 1) --children;
        inner* const over = inners_.take(inner{});
        over->children[0] = level[at].second;
        for (size_t child = 1; child < children; ++child) insert_child(over, over->count, level[at + child].first, level[at + child].second);
        above.emplace_back(level[at].first, over);
        at += children;
      }
      level = std::move(above);
    }
    root_ = level[0].second;
  }

  // The value of the key, null if it is not there. Valid until the tree changes.
  [[nodiscard]] const Value* find(const Key& key) const {
    const void* at = root_;
    for (size_t level = height_; level > 0; --level) at = child_of(at, key);
    return value_in(at, key);
  }

  // A lookup on its way down, for those who write their own loop over several.
  class cursor {
   public:
    cursor() = default;
    // To the child that the key belongs to, which is asked for; false: the leaf has been reached.
    [[gnu::always_inline]] bool descend() {
      if (level_ == 0) return false;
      at_ = child_of(at_, key_);
      // Told that a node begins with a line, the compiler unrolls this.
      prefetch_now(__builtin_assume_aligned(at_, cache_line), --level_ == 0 ? LeafBytes : InnerBytes);
      return true;
    }
    // At the leaf: the key's value, null if it is not there.
    [[gnu::always_inline]] const Value* value() const { return value_in(at_, key_); }

   private:
    friend btree;
    cursor(const void* at, size_t level, const Key& key) : at_(at), level_(level), key_(key) {}

    const void* at_ = nullptr;
    size_t level_ = 0;
    Key key_{};
  };
  // A lookup that has `levels` levels before it; those above it has behind it. See cold_levels.
  [[nodiscard]] [[gnu::always_inline]] cursor begin_at(const Key& key, size_t levels) const {
    const void* at = root_;
    for (size_t level = height_; level > levels; --level) at = child_of(at, key);
    return {at, std::min(levels, height_), key};
  }

  // At how many of the lowest levels a node may be in no near cache. The levels near the root that fit into half of the second cache are there after a few lookups:
  // no use to give way for them.
  [[nodiscard]] size_t cold_levels() const {
    const size_t warm = detail::second_cache() / 2;
    size_t level = height_;
    // What a level takes is guessed: nodes are three quarters full.
    for (size_t bytes = InnerBytes; level > 1; --level) {
      bytes *= inner_room * 3 / 4;
      if (bytes > warm) break;
    }
    return level;
  }

  // As find, for a run of one's own: gives way at each of the lowest `levels` levels of nodes.
  strand<const Value*> find_in_turn(lane&, Key key, size_t levels) const {
    cursor at = begin_at(key, levels);
    while (at.descend()) co_await turn{};
    co_return at.value();
  }

  // The values of many keys, in their order, null where a key is not there: written to out[0], out[1], … Returns how many, less than all only if a stop was requested.
  template <std::ranges::random_access_range Keys, std::random_access_iterator Output>
  size_t multi_get(Keys&& keys, Output out, interleave_options options = {}) const {
    const size_t levels = cold_levels();
    if (options.bytes == 0) options.bytes = bytes();
    const auto first = std::ranges::begin(keys);
    return detail::interleave_blocks(
        static_cast<size_t>(std::ranges::distance(keys)), [&](lane& here, size_t from, size_t behind) { return get_in_turn(here, first, out, from, behind, levels); },
        // Copies: the compiler need not look at them again after each value that is written.
        [this, first, out](size_t from, size_t behind) {
          for (auto [keys, to] = std::pair(first, out); from < behind; ++from) to[from] = find(keys[from]);
        },
        options);
  }
  template <std::ranges::random_access_range Keys>
  [[nodiscard]] std::vector<const Value*> multi_get(Keys&& keys, const interleave_options& options = {}) const {
    std::vector<const Value*> values(static_cast<size_t>(std::ranges::distance(keys)));
    values.resize(multi_get(keys, values.begin(), options));
    return values;
  }

  // Calls visit(key, value) for all keys from `from` on and below `to`, in order.
  template <class Visit>
  void scan(const Key& from, const Key& to, Visit visit) const {
    const leaf* in = descend(from, nullptr);
    for (size_t at = below(in->keys, in->count, from); in != nullptr; in = in->next, at = 0)
      for (; at < in->count; ++at) {
        if (!(in->keys[at] < to)) return;
        visit(in->keys[at], in->values[at]);
      }
  }

  // As scan, for many ranges, pairs of `from` and `to`: calls visit(i, key, value) for the i-th range. In order within a range; the ranges take turns.
  template <std::ranges::input_range Ranges, class Visit>
  size_t multi_scan(Ranges&& ranges, Visit visit, interleave_options options = {}) const {
    const size_t levels = cold_levels();
    if (options.bytes == 0) options.bytes = bytes();
    const auto strand_form = [&](lane& here, const std::pair<Key, Key>& range) { return scan_in_turn(here, range, levels, visit); };
    const auto plain_form = [&](lane& here, const std::pair<Key, Key>& range) {
      const size_t index = here.index();
      scan(range.first, range.second, [&](const Key& key, const Value& value) { visit(index, key, value); });
    };
    return interleave(ranges, either{strand_form, plain_form}, options);
  }

  // What `step(state, key, value)` makes of all keys in order, beginning with `state`. The tree is cut into parts that take turns, each beginning with `state`, and
  // `join(left, right)` puts two neighbours together: so `state` must change nothing, as 0 does in a sum.
  template <class State, class Step, class Join>
  [[nodiscard]] State fold(State state, Step step, Join join, interleave_options options = {}) const {
    if (options.bytes == 0) options.bytes = bytes();
    const auto plain = [&](const part& each) {
      State sum = state;
      for (const leaf* in = each.first; in != each.behind; in = in->next) sum = fold_leaf(*in, std::move(sum), step);
      return sum;
    };
    if (detail::stays_plain(options)) return plain(part{first_leaf(root_, height_), nullptr});
    const std::vector<part> cut = parts();
    either forms{[&](lane& here, const part& each) { return fold_in_turn(here, each, state, step); }, plain};
    State all = state;
    for (State& each : interleave(cut, forms, options)) all = join(std::move(all), std::move(each));
    return all;
  }

  // A part of the leaves, from `first` up to `behind`, for those who write their own loop over them.
  struct part {
    const leaf* first;
    const leaf* behind;
  };
  // The whole tree in parts: at least 4096 if it has so many inner nodes, and not many more.
  [[nodiscard]] std::vector<part> parts() const {
    std::vector<const void*> level{root_};
    size_t height = height_;
    for (; height > 1 && level.size() < 4096; --height) {
      std::vector<const void*> next;
      for (const void* each : level) {
        const auto* const over = static_cast<const inner*>(each);
        next.insert(next.end(), over->children, over->children + over->count + 1);
      }
      level = std::move(next);
    }
    std::vector<part> cut;
    for (const void* each : level) {
      const leaf* const first = first_leaf(each, height);
      if (!cut.empty()) cut.back().behind = first;
      cut.push_back({first, nullptr});
    }
    return cut;
  }
  template <class State, class Step>
  [[gnu::always_inline]] static State fold_leaf(const leaf& in, State state, Step& step) {
    for (size_t at = 0; at < in.count; ++at) state = step(std::move(state), in.keys[at], in.values[at]);
    return state;
  }

 private:
  struct path {
    inner* over[32];
    size_t child[32];
  };

  // How many of a node's sorted keys are below this one, or not above it.
  [[gnu::always_inline]] static size_t below(const Key* keys, size_t count, const Key& key) {
    return count_while(keys, count, [&key](const Key& each) { return each < key; });
  }
  [[gnu::always_inline]] static size_t not_above(const Key* keys, size_t count, const Key& key) {
    return count_while(keys, count, [&key](const Key& each) { return !(key < each); });
  }
  // Without a branch: which way a search goes nobody can predict.
  template <class Test>
  [[gnu::always_inline]] static size_t count_while(const Key* keys, size_t count, Test test) {
    const Key* from = keys;
    for (; count > 1; count -= count / 2) {
      const bool right = test(from[count / 2 - 1]);
#if defined(__clang__)
      from = __builtin_unpredictable(right) ? from + count / 2 : from;
#else
      from += count / 2 * static_cast<size_t>(right);
#endif
    }
    return static_cast<size_t>(from - keys) + static_cast<size_t>(count == 1 && test(*from));
  }

  [[gnu::always_inline]] static const void* child_of(const void* node, const Key& key) {
    const auto* const in = static_cast<const inner*>(node);
    return in->children[not_above(in->keys, in->count, key)];
  }
  [[gnu::always_inline]] static const Value* value_in(const void* node, const Key& key) {
    const auto* const in = static_cast<const leaf*>(node);
    const size_t at = below(in->keys, in->count, key);
    return at < in->count && !(key < in->keys[at]) ? &in->values[at] : nullptr;
  }

  // The first leaf below a node, which is so many levels further down.
  static const leaf* first_leaf(const void* node, size_t levels) {
    for (; levels > 0; --levels) node = static_cast<const inner*>(node)->children[0];
    return static_cast<const leaf*>(node);
  }

  // The leaf that the key belongs to, and the way there if asked for.
  leaf* descend(const Key& key, path* way) const {
    void* at = root_;
    for (size_t level = height_; level > 0; --level) {
      auto* const over = static_cast<inner*>(at);
      const size_t child = not_above(over->keys, over->count, key);
      if (way != nullptr) {
        way->over[level] = over;
        way->child[level] = child;
      }
      at = over->children[child];
    }
    return static_cast<leaf*>(at);
  }

  template <class T>
  static void open(T* array, size_t count, size_t at) {
    std::memmove(array + at + 1, array + at, (count - at) * sizeof(T));
  }
  static void insert_at(leaf* in, size_t at, const Key& key, const Value& value) {
    open(in->keys, in->count, at);
    open(in->values, in->count, at);
    in->keys[at] = key;
    in->values[at] = value;
    ++in->count;
  }
  // A child behind the one at `at`, for keys from `key` on.
  static void insert_child(inner* in, size_t at, const Key& key, void* child) {
    open(in->keys, in->count, at);
    open(in->children, in->count + 1, at + 1);
    in->keys[at] = key;
    in->children[at + 1] = child;
    ++in->count;
  }

  // Cuts a full leaf in two, and the full nodes above it. What that needs is taken first, so that it happens as a whole or not at all.
  void split(leaf* full, size_t at, const Key& key, const Value& value, const path& way) {
    size_t new_inners = 0;
    while (new_inners < height_ && way.over[new_inners + 1]->count == inner_room) ++new_inners;
    inners_.reserve(new_inners + (new_inners == height_ ? 1 : 0));
    leaf* const right = leaves_.take(leaf{});
    constexpr size_t left_count = leaf_room / 2;
    right->count = leaf_room - left_count;
    std::memcpy(right->keys, full->keys + left_count, right->count * sizeof(Key));
    std::memcpy(right->values, full->values + left_count, right->count * sizeof(Value));
    full->count = left_count;
    right->next = full->next;
    full->next = right;
    if (at > left_count) {
      insert_at(right, at - left_count, key, value);
    } else {
      insert_at(full, at, key, value);
    }
    add_above(1, right->keys[0], right, way);
  }

  // Hangs a new node of the level below into the node at `level` that is on the way.
  void add_above(size_t level, const Key& key, void* child, const path& way) {
    if (level > height_) {
      inner* const top = inners_.take(inner{});
      top->children[0] = root_;
      insert_child(top, 0, key, child);
      root_ = top;
      ++height_;
      return;
    }
    inner* const over = way.over[level];
    const size_t at = way.child[level];
    if (over->count < inner_room) return insert_child(over, at, key, child);
    // The middle key goes up; those behind it go to the right.
    inner* const right = inners_.take(inner{});
    constexpr size_t left_count = inner_room / 2;
    const Key middle = over->keys[left_count];
    right->count = inner_room - left_count - 1;
    std::memcpy(right->keys, over->keys + left_count + 1, right->count * sizeof(Key));
    std::memcpy(right->children, over->children + left_count + 1, (right->count + 1) * sizeof(void*));
    over->count = left_count;
    if (at > left_count) {
      insert_child(right, at - left_count - 1, key, child);
    } else {
      insert_child(over, at, key, child);
    }
    add_above(level + 1, middle, right, way);
  }

  template <class First, class Output>
  strand<> get_in_turn(lane&, First keys, Output out, size_t from, size_t behind, size_t levels) const {
    for (size_t at = from; at < behind; ++at) {
      cursor way = begin_at(keys[at], levels);
      while (way.descend()) co_await turn{};
      out[at] = way.value();
    }
  }

  template <class Visit>
  strand<> scan_in_turn(lane& here, std::pair<Key, Key> range, size_t levels, Visit& visit) const {
    const auto [from, to] = range;
    const size_t index = here.index();
    cursor way = begin_at(from, levels);
    while (way.descend()) co_await turn{};
    const auto* in = static_cast<const leaf*>(way.at_);
    size_t at = below(in->keys, in->count, from);
    for (;;) {
      for (; at < in->count; ++at) {
        if (!(in->keys[at] < to)) co_return;
        visit(index, in->keys[at], in->values[at]);
      }
      in = in->next;
      if (in == nullptr) co_return;
      at = 0;
      co_await prefetch(in, LeafBytes);
    }
  }

  template <class State, class Step>
  static strand<State> fold_in_turn(lane&, part leaves, State state, Step& step) {
    for (const leaf* in = leaves.first; in != leaves.behind; in = in->next) {
      co_await prefetch(in, LeafBytes);
      state = fold_leaf(*in, std::move(state), step);
    }
    co_return state;
  }

  detail::nodes<leaf, LeafBytes> leaves_;
  detail::nodes<inner, InnerBytes> inners_;
  void* root_;
  size_t height_ = 0;
  size_t size_ = 0;
};

}  // namespace corank
