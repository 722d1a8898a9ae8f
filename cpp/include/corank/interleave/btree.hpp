// A B+ tree whose batches of lookups and scans hide the memory's latency.
//
//   corank::btree<uint64_t, uint64_t> tree;
//   tree.insert(7, 49);
//   std::vector<const uint64_t*> values = tree.multi_get(keys);  // null for a missing key
//   long sum = tree.fold(0L, [](long sum, uint64_t, uint64_t value) { return sum + value; },
//                        std::plus<>{});
//
// Keys and values are small and plain: nodes are copied as bytes. The tree has no locks: no other
// thread may use it during a change.
#pragma once

#include "blocks.hpp"
#include "nodes.hpp"
#include "sorted_keys.hpp"

#include <cstring>
#include <span>
#include <type_traits>

// Prevents inlining, and in GCC a clone for constant arguments.
#if defined(__clang__)
#define CORANK_ONE_COPY [[gnu::noinline]]
#else
#define CORANK_ONE_COPY [[gnu::noinline, gnu::noclone]]
#endif

namespace corank {

// A B+ tree. `LeafBytes` and `InnerBytes` are the sizes of nodes, whole cache lines. Larger leaves
// need fewer misses for a scan, and more lines for a lookup.
template <class Key, class Value, size_t LeafBytes = 256, size_t InnerBytes = 256>
class btree {
  static_assert(std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>,
                "corank: a btree's nodes are copied as bytes");

  template <size_t Room>
  struct leaf_with {
    detail::sorted_keys<Key, Room> keys;
    leaf_with* next;
    Value values[Room];
  };
  // Keys below keys[i] are below children[i]. There is one child more than keys.
  template <size_t Room>
  struct inner_with {
    detail::sorted_keys<Key, Room> keys;
    void* children[Room + 1];
  };
  static constexpr size_t leaf_room =
      detail::most_that_fit<leaf_with, LeafBytes, LeafBytes / (sizeof(Key) + sizeof(Value))>();
  static constexpr size_t inner_room =
      detail::most_that_fit<inner_with, InnerBytes, InnerBytes / (sizeof(Key) + sizeof(void*))>();
  static_assert(leaf_room >= 2 && inner_room >= 3,
                "corank: a btree's nodes need room for some keys");
  using leaf = leaf_with<leaf_room>;
  using inner = inner_with<inner_room>;

 public:
  btree() : root_(leaves_.take(leaf{})) {}
  btree(const btree&) = delete;
  btree& operator=(const btree&) = delete;

  // Returns the number of keys.
  [[nodiscard]] size_t size() const noexcept { return size_; }
  // Returns the bytes of all nodes.
  [[nodiscard]] size_t bytes() const noexcept { return leaves_.bytes() + inners_.bytes(); }
  // Returns the number of keys that fit into a leaf.
  static constexpr size_t keys_per_leaf() noexcept { return leaf_room; }

  // Adds a key with its value. Returns false, without a change, if the key exists. Throws
  // std::bad_alloc, without a change.
  bool insert(const Key& key, const Value& value) {
    path way;
    leaf* const in = descend(key, &way);
    const size_t at = in->keys.below(key);
    if (at < in->keys.count() && !(key < in->keys[at])) return false;
    if (in->keys.count() < leaf_room) {
      insert_at(in, at, key, value);
    } else {
      split(in, at, key, value, way);
    }
    ++size_;
    return true;
  }

  // Removes a key. Returns false if it does not exist. Keys nearby may use its room; nodes are not
  // joined.
  bool erase(const Key& key) {
    leaf* const in = descend(key, nullptr);
    const size_t at = in->keys.below(key);
    if (at == in->keys.count() || key < in->keys[at]) return false;
    in->keys.erase(at);
    std::memmove(in->values + at, in->values + at + 1, (in->keys.count() - at) * sizeof(Value));
    --size_;
    return true;
  }

  // Fills an empty tree with full nodes from pairs in order of their distinct keys. `order(i)` is
  // the position in memory of the i-th leaf: a permutation, which imitates a tree that grew by
  // random inserts.
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
      for (const auto& [key, value] :
           pairs.subspan(at * leaf_room, std::min(leaf_room, pairs.size() - at * leaf_room)))
        insert_at(in, in->keys.count(), key, value);
      if (last != nullptr) last->next = in;
      last = in;
      level[at] = {in->keys[0], in};
    }
    size_ = pairs.size();
    for (height_ = 0; level.size() > 1; ++height_) {
      std::vector<std::pair<Key, void*>> above;
      for (size_t at = 0; at < level.size();) {
        // The last two nodes share their children, so that neither has a single child.
        size_t children = std::min(inner_room + 1, level.size() - at);
        if (level.size() - at - children == 1) --children;
        inner* const over = inners_.take(inner{});
        over->children[0] = level[at].second;
        for (size_t child = 1; child < children; ++child)
          insert_child(over, over->keys.count(), level[at + child].first, level[at + child].second);
        above.emplace_back(level[at].first, over);
        at += children;
      }
      level = std::move(above);
    }
    root_ = level[0].second;
  }

  // Returns the value of a key, or null. Valid until the tree changes.
  [[nodiscard]] const Value* find(const Key& key) const {
    const void* at = root_;
    for (size_t level = height_; level > 0; --level) at = child_of(at, key);
    return value_in(at, key);
  }

  // A lookup in progress, for hand-written loops over several lookups.
  class cursor {
   public:
    cursor() = default;
    // Moves to the child for the key and prefetches it. Returns false at the leaf.
    [[gnu::always_inline]] bool descend() {
      if (level_ == 0) return false;
      at_ = child_of(at_, key_);
      // The alignment makes the number of lines a constant. In a leaf, only the searched part is
      // prefetched; value() prefetches the value's line.
      const void* const node = __builtin_assume_aligned(at_, cache_line);
      if (--level_ == 0)
        prefetch_now(node, sizeof(leaf::keys));
      else
        prefetch_now(node, InnerBytes);
      return true;
    }
    // Returns the key's value, or null, and prefetches it. For a cursor at a leaf.
    [[gnu::always_inline]] const Value* value() const {
      const auto* const in = static_cast<const leaf*>(at_);
      const size_t at = in->keys.below(key_);
      // Also for a missing key: to prefetch from an unmapped page is slow.
      prefetch_now(&in->values[at]);
      return if_there(&in->values[at], in->keys.is_at(at, key_));
    }

   private:
    friend btree;
    cursor(const void* at, size_t level, const Key& key) : at_(at), level_(level), key_(key) {}

    const void* at_ = nullptr;
    size_t level_ = 0;
    Key key_{};
  };
  // Starts a lookup at `levels` levels above the leaves. The levels above are searched here. See
  // cold_levels.
  [[nodiscard]] [[gnu::always_inline]] cursor begin_at(const Key& key, size_t levels) const {
    const void* at = root_;
    for (size_t level = height_; level > levels; --level) at = child_of(at, key);
    return {at, std::min(levels, height_), key};
  }

  // Returns how many of the lowest levels may be in no near cache. The levels near the root that
  // fit into half of the second cache are warm after a few lookups, so a lookup need not yield
  // there.
  [[nodiscard]] size_t cold_levels() const {
    const size_t warm = detail::second_cache() / 2;
    // The average number of children of a node.
    const double children = 1 + static_cast<double>(leaves_.count()) /
                                    static_cast<double>(std::max(inners_.count(), size_t{1}));
    size_t level = height_;
    for (double bytes = InnerBytes; level > 1; --level) {
      bytes *= children;
      if (bytes > static_cast<double>(warm)) break;
    }
    return level;
  }

  // Finds a key as find() does, and yields at each of the lowest `levels` levels. For a run of your
  // own.
  strand<const Value*> find_in_turn(lane&, Key key, size_t levels) const {
    cursor at = begin_at(key, levels);
    while (at.descend()) co_await turn{};
    co_return at.value();
  }

  // Looks up many keys and writes their values, in order, to out[0], out[1], … A missing key gives
  // null. Returns the number of lookups, less than all only after a request to stop.
  template <std::ranges::random_access_range Keys, std::random_access_iterator Output>
  size_t multi_get(Keys&& keys, Output out, interleave_options options = {}) const {
    const size_t levels = cold_levels();
    if (options.bytes == 0) options.bytes = bytes();
    options.at_once = together;
    const auto first = std::ranges::begin(keys);
    return detail::interleave_blocks(
        static_cast<size_t>(std::ranges::distance(keys)),
        [&](lane& here, detail::supply& left, size_t block) {
          return get_in_turn(here, first, out, left, block, levels);
        },
        // The copies spare the compiler a reload after each value that is written.
        [this, first, out](size_t from, size_t behind) {
          for (auto [keys, to] = std::pair(first, out); from < behind; ++from)
            to[from] = find(keys[from]);
        },
        options);
  }
  template <std::ranges::random_access_range Keys>
  [[nodiscard]] std::vector<const Value*> multi_get(Keys&& keys,
                                                    const interleave_options& options = {}) const {
    std::vector<const Value*> values(static_cast<size_t>(std::ranges::distance(keys)));
    values.resize(multi_get(keys, values.begin(), options));
    return values;
  }

  // Calls visit(key, value) for all keys from `from` on and below `to`, in order.
  template <class Visit>
  void scan(const Key& from, const Key& to, Visit visit) const {
    const leaf* in = descend(from, nullptr);
    for (size_t at = in->keys.below(from); in != nullptr; in = in->next, at = 0)
      for (; at < in->keys.count(); ++at) {
        if (!(in->keys[at] < to)) return;
        visit(in->keys[at], in->values[at]);
      }
  }

  // Scans many ranges, pairs of `from` and `to`: calls visit(i, key, value) for the i-th range. The
  // calls are in order within a range; the ranges take turns.
  template <std::ranges::input_range Ranges, class Visit>
  size_t multi_scan(Ranges&& ranges, Visit visit, interleave_options options = {}) const {
    const size_t levels = cold_levels();
    if (options.bytes == 0) options.bytes = bytes();
    const auto strand_form = [&](lane& here, const std::pair<Key, Key>& range) {
      return scan_in_turn(here, range, levels, visit);
    };
    const auto plain_form = [&](lane& here, const std::pair<Key, Key>& range) {
      const size_t index = here.index();
      scan(range.first, range.second,
           [&](const Key& key, const Value& value) { visit(index, key, value); });
    };
    return interleave(ranges, either{strand_form, plain_form}, options);
  }

  // Folds all keys in order with `step(state, key, value)`, from `state` on. The tree is cut into
  // parts that take turns. Each part begins with `state`, and `join(left, right)` joins two
  // neighbours. So `state` must be neutral, as 0 is in a sum.
  template <class State, class Step, class Join>
  [[nodiscard]] State fold(State state, Step step, Join join,
                           interleave_options options = {}) const {
    if (options.bytes == 0) options.bytes = bytes();
    options.at_once = detail::addresses_of(LeafBytes);
    if (detail::stays_plain(options) ||
        (options.width == automatic && scan_stays_plain(options.bytes)))
      return fold_part({first_leaf(root_, height_), nullptr}, state, step);
    const auto plain = [&](const part& each) { return fold_part(each, state, step); };
    const std::vector<part> cut = parts();
    either forms{
        [&](lane& here, const part& each) { return fold_in_turn(here, each, state, step); }, plain};
    State all = state;
    for (State& each : interleave(cut, forms, options)) all = join(std::move(all), std::move(each));
    return all;
  }

  // A part of the leaves, from `first` up to `behind`, for hand-written loops.
  struct part {
    const leaf* first;
    const leaf* behind;
  };
  // Folds a part with `step`, from `state` on, in plain code. It is neither inlined nor cloned, so
  // it is equally fast for every caller.
  template <class State, class Step>
  [[nodiscard]] CORANK_ONE_COPY static State fold_part(part leaves, State state, Step& step) {
    for (const leaf* in = leaves.first; in != leaves.behind; in = in->next)
      state = fold_leaf(*in, std::move(state), step);
    return state;
  }
  // Returns the whole tree in parts: 1024 to 2047 if it has so many inner nodes. More parts would
  // be short, each end is a mispredicted branch, and finding them would take longer.
  [[nodiscard]] std::vector<part> parts() const {
    std::vector<const void*> level{root_};
    size_t height = height_;
    for (; height > 1 && level.size() < least_parts; --height) {
      std::vector<const void*> next;
      for (const void* each : level) {
        const auto* const over = static_cast<const inner*>(each);
        next.insert(next.end(), over->children, over->children + over->keys.count() + 1);
      }
      level = std::move(next);
    }
    const size_t nodes = std::max(level.size() / least_parts, size_t{1});
    std::vector<part> cut;
    for (size_t at = 0; at < level.size(); at += nodes) {
      const leaf* const first = first_leaf(level[at], height);
      if (!cut.empty()) cut.back().behind = first;
      cut.push_back({first, nullptr});
    }
    return cut;
  }
  template <class State, class Step>
  [[gnu::always_inline]] static State fold_leaf(const leaf& in, State state, Step& step) {
    // For a full leaf the number of keys is a constant, and the end of the loop needs no
    // prediction.
    if (in.keys.count() == leaf_room) [[likely]] {
      for (size_t at = 0; at < leaf_room; ++at)
        state = step(std::move(state), in.keys[at], in.values[at]);
    } else {
      for (size_t at = 0; at < in.keys.count(); ++at)
        state = step(std::move(state), in.keys[at], in.values[at]);
    }
    return state;
  }

 private:
  static constexpr size_t least_parts = 1024;

  struct path {
    inner* over[32];
    size_t child[32];
  };

  [[gnu::always_inline]] static const void* child_of(const void* node, const Key& key) {
    const auto* const in = static_cast<const inner*>(node);
    return in->children[in->keys.not_above(key)];
  }
  // Returns the pointer or null, without a branch.
  [[gnu::always_inline]] static const Value* if_there(const Value* value, bool there) {
    return reinterpret_cast<const Value*>(reinterpret_cast<uintptr_t>(value) &
                                          (uintptr_t{0} - uintptr_t{there}));
  }
  [[gnu::always_inline]] static const Value* value_in(const void* node, const Key& key) {
    const auto* const in = static_cast<const leaf*>(node);
    const size_t at = in->keys.below(key);
    return if_there(&in->values[at], in->keys.is_at(at, key));
  }

  // Tests whether a scan of the whole tree is plain, without a trial and without a cut into parts.
  [[nodiscard]] bool scan_stays_plain(size_t bytes) const {
    // The longest time for a leaf from the last cache, in nanoseconds. By it a scan may be too
    // short for a trial.
    constexpr double longest = 60;
    const bool near = bytes <= detail::last_cache();
    if (near && longest * static_cast<double>(leaves_.count()) < detail::shortest_with_trial)
      return true;
    // Leaves in order arrive as fast as a scan reads them, except large ones, and the parts of a
    // trial are long. In the last cache that holds for large ones too.
    return (LeafBytes <= 4 * cache_line || near) && lies_in_order();
  }

  // Tests, by a sample of the lowest inner nodes, whether most leaves lie close behind the one
  // before. The processor's own prefetcher then fetches them.
  [[nodiscard]] bool lies_in_order() const {
    constexpr size_t samples = 16;
    if (height_ == 0) return true;
    // All samples descend level by level, so that their misses overlap.
    const inner* at[samples];
    std::fill_n(at, samples, static_cast<const inner*>(root_));
    uint64_t chance = 0;
    for (size_t level = height_; level > 1; --level)
      for (const inner*& in : at) {
        chance = chance * 6364136223846793005 + 1442695040888963407;
        in = static_cast<const inner*>(in->children[(chance >> 33) % (in->keys.count() + 1)]);
      }
    size_t leaves = 0, close = 0;
    for (const inner* const in : at)
      for (size_t child = 1; child <= in->keys.count(); ++child, ++leaves)
        close += reinterpret_cast<uintptr_t>(in->children[child]) -
                     reinterpret_cast<uintptr_t>(in->children[child - 1]) <=
                 2 * LeafBytes;
    return 4 * close >= 3 * leaves;
  }

  // Returns the first leaf below a node, `levels` levels further down.
  static const leaf* first_leaf(const void* node, size_t levels) {
    for (; levels > 0; --levels) node = static_cast<const inner*>(node)->children[0];
    return static_cast<const leaf*>(node);
  }

  // Returns the leaf for a key, and stores the path if `way` is not null.
  leaf* descend(const Key& key, path* way) const {
    void* at = root_;
    for (size_t level = height_; level > 0; --level) {
      auto* const over = static_cast<inner*>(at);
      const size_t child = over->keys.not_above(key);
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
    open(in->values, in->keys.count(), at);
    in->values[at] = value;
    in->keys.insert(at, key);
  }
  // Inserts a child behind the one at `at`, for keys from `key` on.
  static void insert_child(inner* in, size_t at, const Key& key, void* child) {
    open(in->children, in->keys.count() + 1, at + 1);
    in->children[at + 1] = child;
    in->keys.insert(at, key);
  }

  // Splits a full leaf and the full nodes above it. It first allocates the memory, so that it
  // succeeds or fails as a whole.
  void split(leaf* full, size_t at, const Key& key, const Value& value, const path& way) {
    size_t new_inners = 0;
    while (new_inners < height_ && way.over[new_inners + 1]->keys.count() == inner_room)
      ++new_inners;
    inners_.reserve(new_inners + (new_inners == height_ ? 1 : 0));
    leaf* const right = leaves_.take(leaf{});
    constexpr size_t left_count = leaf_room / 2;
    full->keys.move_to(right->keys, left_count);
    std::memcpy(right->values, full->values + left_count, right->keys.count() * sizeof(Value));
    right->next = full->next;
    full->next = right;
    if (at > left_count) {
      insert_at(right, at - left_count, key, value);
    } else {
      insert_at(full, at, key, value);
    }
    add_above(1, right->keys[0], right, way);
  }

  // Inserts a new node of the level below into the node at `level` of the path.
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
    if (over->keys.count() < inner_room) return insert_child(over, at, key, child);
    // The middle key goes up; the keys behind it go to the right.
    inner* const right = inners_.take(inner{});
    constexpr size_t left_count = inner_room / 2;
    const Key middle = over->keys[left_count];
    over->keys.move_to(right->keys, left_count + 1);
    over->keys.drop(left_count);
    std::memcpy(right->children, over->children + left_count + 1,
                (right->keys.count() + 1) * sizeof(void*));
    if (at > left_count) {
      insert_child(right, at - left_count - 1, key, child);
    } else {
      insert_child(over, at, key, child);
    }
    add_above(level + 1, middle, right, way);
  }

  // Some keys descend together: their searches overlap, and one switch serves them all.
  static constexpr size_t together = 8;
  template <class First, class Output>
  strand<> get_in_turn(lane&, First keys, Output out, detail::supply& left, size_t count,
                       size_t levels) const {
    while (count > 0) {
      const size_t now = std::min(together, count), at = left.take(now);
      count -= now;
      cursor ways[together];
      for (size_t each = 0; each < now; ++each) ways[each] = begin_at(keys[at + each], levels);
      for (size_t level = std::min(levels, height_); level > 0; --level) {
        for (size_t each = 0; each < now; ++each) ways[each].descend();
        co_await turn{};
      }
      for (size_t each = 0; each < now; ++each) out[at + each] = ways[each].value();
    }
  }

  template <class Visit>
  strand<> scan_in_turn(lane& here, std::pair<Key, Key> range, size_t levels, Visit& visit) const {
    const auto [from, to] = range;
    const size_t index = here.index();
    cursor way = begin_at(from, levels);
    while (way.descend()) co_await turn{};
    const auto* in = static_cast<const leaf*>(way.at_);
    size_t at = in->keys.below(from);
    for (;;) {
      for (; at < in->keys.count(); ++at) {
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
      // The alignment makes the number of lines a constant.
      co_await prefetch(__builtin_assume_aligned(in, cache_line), LeafBytes);
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

#undef CORANK_ONE_COPY
