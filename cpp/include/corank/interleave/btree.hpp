// A B+ tree whose batches of lookups and scans hide the memory's latency.
//
//   corank::btree<uint64_t, uint64_t> tree;
//   tree.insert(7, 49);
//   std::vector<const uint64_t*> values = tree.multi_get(keys);       null where a key is not there
//   long sum = tree.fold(0L, [](long sum, uint64_t, uint64_t value) { return sum + value; },
//   std::plus<>{});
//
// Keys and values are small and plain: nodes are copied as bytes. Not for several threads while one
// of them changes the tree.
#pragma once

#include "blocks.hpp"
#include "nodes.hpp"
#include "sorted_keys.hpp"

#include <cstring>
#include <span>
#include <type_traits>

// Not inlined, and by GCC not copied for constant arguments.
#if defined(__clang__)
#define CORANK_ONE_COPY [[gnu::noinline]]
#else
#define CORANK_ONE_COPY [[gnu::noinline, gnu::noclone]]
#endif

namespace corank {

// `LeafBytes` and `InnerBytes` are sizes of nodes, whole cache lines. Larger leaves need fewer
// misses for a scan, and more lines for a lookup.
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
  // Keys below keys[i] are below children[i]; there is one child more than keys.
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

  // How many keys there are.
  [[nodiscard]] size_t size() const noexcept { return size_; }
  // What the nodes take.
  [[nodiscard]] size_t bytes() const noexcept { return leaves_.bytes() + inners_.bytes(); }
  // How many keys fit into a leaf.
  static constexpr size_t keys_per_leaf() noexcept { return leaf_room; }

  // Adds the key with this value, unless it is there: then nothing changes and the result is false.
  // Throws std::bad_alloc, and then nothing has changed.
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

  // Removes the key; false: it was not there. Its place is free for keys nearby; nodes are not
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

  // Fills an empty tree with pairs that are sorted by key, each key once, in full nodes. `order(i)`
  // says where the memory of the i-th leaf lies among all leaves: a permutation, as a tree has that
  // has grown by chance.
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
        // The last two share, so that none has a single child.
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
      // Told that a node begins with a line, the compiler knows how many lines there are. Of a leaf
      // only what is searched: the value's line is asked for when it is known.
      const void* const node = __builtin_assume_aligned(at_, cache_line);
      if (--level_ == 0)
        prefetch_now(node, sizeof(leaf::keys));
      else
        prefetch_now(node, InnerBytes);
      return true;
    }
    // At the leaf: the key's value, which is asked for; null if it is not there.
    [[gnu::always_inline]] const Value* value() const {
      const auto* const in = static_cast<const leaf*>(at_);
      const size_t at = in->keys.below(key_);
      // Also where the key is not: to ask for a page that is not there takes long.
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
  // A lookup that has `levels` levels before it; those above it has behind it. See cold_levels.
  [[nodiscard]] [[gnu::always_inline]] cursor begin_at(const Key& key, size_t levels) const {
    const void* at = root_;
    for (size_t level = height_; level > levels; --level) at = child_of(at, key);
    return {at, std::min(levels, height_), key};
  }

  // At how many of the lowest levels a node may be in no near cache. The levels near the root that
  // fit into half of the second cache are there after a few lookups: no use to give way for them.
  [[nodiscard]] size_t cold_levels() const {
    const size_t warm = detail::second_cache() / 2;
    // Children of a node, as they are on the average.
    const double children = 1 + static_cast<double>(leaves_.count()) /
                                    static_cast<double>(std::max(inners_.count(), size_t{1}));
    size_t level = height_;
    for (double bytes = InnerBytes; level > 1; --level) {
      bytes *= children;
      if (bytes > static_cast<double>(warm)) break;
    }
    return level;
  }

  // As find, for a run of one's own: gives way at each of the lowest `levels` levels of nodes.
  strand<const Value*> find_in_turn(lane&, Key key, size_t levels) const {
    cursor at = begin_at(key, levels);
    while (at.descend()) co_await turn{};
    co_return at.value();
  }

  // The values of many keys, in their order, null where a key is not there: written to out[0],
  // out[1], … Returns how many, less than all only if a stop was requested.
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
        // Copies: the compiler need not look at them again after each value that is written.
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

  // As scan, for many ranges, pairs of `from` and `to`: calls visit(i, key, value) for the i-th
  // range. In order within a range; the ranges take turns.
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

  // What `step(state, key, value)` makes of all keys in order, beginning with `state`. The tree is
  // cut into parts that take turns, each beginning with `state`, and `join(left, right)` puts two
  // neighbours together: so `state` must change nothing, as 0 does in a sum.
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

  // A part of the leaves, from `first` up to `behind`, for those who write their own loop over
  // them.
  struct part {
    const leaf* first;
    const leaf* behind;
  };
  // What `step` makes of a part, beginning with `state`, in plain code. Not inlined, nor a copy for
  // each constant: so it is as fast wherever it is called.
  template <class State, class Step>
  [[nodiscard]] CORANK_ONE_COPY static State fold_part(part leaves, State state, Step& step) {
    for (const leaf* in = leaves.first; in != leaves.behind; in = in->next)
      state = fold_leaf(*in, std::move(state), step);
    return state;
  }
  // The whole tree in parts: 1024 to 2047 of them if it has so many inner nodes. More would be
  // short, and the end of each is a branch that no processor foresees; to find them would take
  // longer.
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
    // Of a full leaf the compiler knows the number of keys: then a scan's speed does not depend on
    // whether the processor foresees the loop's end.
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
  // The pointer or null, without a branch.
  [[gnu::always_inline]] static const Value* if_there(const Value* value, bool there) {
    return reinterpret_cast<const Value*>(reinterpret_cast<uintptr_t>(value) &
                                          (uintptr_t{0} - uintptr_t{there}));
  }
  [[gnu::always_inline]] static const Value* value_in(const void* node, const Key& key) {
    const auto* const in = static_cast<const leaf*>(node);
    const size_t at = in->keys.below(key);
    return if_there(&in->values[at], in->keys.is_at(at, key));
  }

  // Whether a scan of the whole tree is plain without a trial, and without being cut in parts,
  // whose beginnings cost something.
  [[nodiscard]] bool scan_stays_plain(size_t bytes) const {
    // What a leaf takes at most that comes from the last cache, in nanoseconds: so long a scan may
    // be too short for a trial.
    constexpr double longest = 60;
    const bool near = bytes <= detail::last_cache();
    if (near && longest * static_cast<double>(leaves_.count()) < detail::shortest_with_trial)
      return true;
    // All leaves in order but large ones come as fast as they are looked at, and the parts of a
    // trial are long; large ones too, from the last cache.
    return (LeafBytes <= 4 * cache_line || near) && lies_in_order();
  }

  // Whether most leaves lie close behind the one before, as far as a few of the lowest inner nodes
  // tell: then the processor's own prefetcher brings them.
  [[nodiscard]] bool lies_in_order() const {
    constexpr size_t samples = 16;
    if (height_ == 0) return true;
    // Down level by level, so that the nodes at a level don't wait for each other.
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
  // A child behind the one at `at`, for keys from `key` on.
  static void insert_child(inner* in, size_t at, const Key& key, void* child) {
    open(in->children, in->keys.count() + 1, at + 1);
    in->children[at + 1] = child;
    in->keys.insert(at, key);
  }

  // Cuts a full leaf in two, and the full nodes above it. What that needs is taken first, so that
  // it happens as a whole or not at all.
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
    if (over->keys.count() < inner_room) return insert_child(over, at, key, child);
    // The middle key goes up; those behind it go to the right.
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

  // Some keys go down together: their searches don't wait for each other, and a switch serves them
  // all.
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
      // A leaf begins with a line: then the compiler knows how many lines there are.
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
