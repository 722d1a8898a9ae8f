// The tree behaves as the standard library's map, whatever the width.
#include "allocations.hpp"
#include "containers.hpp"

#include <corank/interleave/btree.hpp>

#include <algorithm>
#include <climits>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>

using test::change_both;
using test::widths;

namespace {

// Small nodes: many levels with few keys.
using small_tree = corank::btree<int, int, 64, 64>;
using usual_tree = corank::btree<uint64_t, uint64_t>;

template <class Tree>
std::vector<std::pair<int, int>> all_of(const Tree& tree) {
  std::vector<std::pair<int, int>> pairs;
  tree.scan(INT_MIN, INT_MAX, [&](int key, int value) { pairs.emplace_back(key, value); });
  return pairs;
}

std::vector<std::pair<int, int>> all_of(const std::map<int, int>& map) {
  return {map.begin(), map.end()};
}

}  // namespace

TEST(btree, is_like_a_map) {
  std::mt19937 chance(2);
  for (const int range : {10, 300, 100'000}) {
    small_tree tree;
    std::map<int, int> map;
    change_both(tree, map, 20'000, chance, [&] {
      return static_cast<int>(chance() % static_cast<unsigned>(range)) - range / 2;
    });
    EXPECT_EQ(all_of(tree), all_of(map));
    for (int time = 0; time < 200; ++time) {
      const int from = static_cast<int>(chance() % 1000) - 500,
                to = from + static_cast<int>(chance() % 100);
      std::vector<std::pair<int, int>> found;
      tree.scan(from, to, [&](int key, int value) { found.emplace_back(key, value); });
      EXPECT_EQ(found,
                (std::vector<std::pair<int, int>>(map.lower_bound(from), map.lower_bound(to))));
    }
  }
}

namespace {

// Tests keys at both ends of the type's range. The padding of a node's keys must not be taken for a
// key.
template <class Key, size_t Bytes>
void is_like_a_map_at_the_ends() {
  std::mt19937 chance(8);
  corank::btree<Key, int, Bytes, Bytes> tree;
  std::map<Key, int> map;
  const auto key = [&] {
    const auto step = static_cast<Key>(chance() % 100);
    return static_cast<Key>(chance() % 2 == 0 ? std::numeric_limits<Key>::max() - step
                                              : std::numeric_limits<Key>::lowest() + step);
  };
  change_both(tree, map, 10'000, chance, key);
  std::vector<Key> keys(1000);
  std::generate(keys.begin(), keys.end(), key);
  std::vector<const int*> expected;
  for (const Key each : keys) expected.push_back(tree.find(each));
  for (const size_t width : widths) EXPECT_EQ(tree.multi_get(keys, {.width = width}), expected);
}

}  // namespace

TEST(btree, holds_the_least_and_the_greatest_key) {
  is_like_a_map_at_the_ends<uint64_t, 256>();
  is_like_a_map_at_the_ends<int64_t, 64>();
  is_like_a_map_at_the_ends<uint32_t, 64>();
  is_like_a_map_at_the_ends<int8_t, 64>();
  // More keys in a node than are compared at once, and a type that is not an integer.
  is_like_a_map_at_the_ends<uint16_t, 512>();
  is_like_a_map_at_the_ends<double, 128>();
}

TEST(btree, batches_are_like_single_lookups) {
  std::mt19937 chance(3);
  for (const int count : {0, 1, 5, 100, 20'000}) {
    small_tree tree;
    for (int time = 0; time < count; ++time) tree.insert(static_cast<int>(chance() % 30'000), time);
    std::vector<int> keys(5000);
    for (int& key : keys) key = static_cast<int>(chance() % 30'000);
    std::vector<const int*> expected;
    for (const int key : keys) expected.push_back(tree.find(key));
    for (const size_t width : widths) EXPECT_EQ(tree.multi_get(keys, {.width = width}), expected);
  }
}

TEST(btree, range_scans_take_turns) {
  std::mt19937 chance(4);
  small_tree tree;
  for (int time = 0; time < 20'000; ++time) tree.insert(static_cast<int>(chance() % 50'000), time);
  std::vector<std::pair<int, int>> ranges;
  for (int time = 0; time < 300; ++time) {
    const int from = static_cast<int>(chance() % 50'000) - 100;
    ranges.emplace_back(from, from + static_cast<int>(chance() % 300) - 20);
  }
  for (const size_t width : widths) {
    std::vector<std::vector<std::pair<int, int>>> found(ranges.size()), expected(ranges.size());
    EXPECT_EQ(
        tree.multi_scan(ranges,
                        [&](size_t at, int key, int value) { found[at].emplace_back(key, value); },
                        {.width = width}),
        ranges.size());
    for (size_t at = 0; at < ranges.size(); ++at)
      tree.scan(ranges[at].first, ranges[at].second,
                [&](int key, int value) { expected[at].emplace_back(key, value); });
    EXPECT_EQ(found, expected);
  }
}

TEST(btree, a_fold_goes_through_all_in_order) {
  for (const int count : {0, 1, 6, 7, 1000, 50'000}) {
    small_tree tree;
    for (int key = count; key > 0; --key) tree.insert(key, 2 * key);
    for (const size_t width : widths) {
      // A state that depends on the direction: the last key of each part, and how often a key was
      // not above the one before.
      struct state {
        int last, wrong;
        long sum;
      };
      const state found = tree.fold(
          state{0, 0, 0},
          [](state at, int key, int value) {
            return state{key, at.wrong + (key > at.last ? 0 : 1), at.sum + value};
          },
          [](state left, state right) {
            return state{right.last, left.wrong + right.wrong + (right.last >= left.last ? 0 : 1),
                         left.sum + right.sum};
          },
          {.width = width});
      EXPECT_EQ(found.wrong, 0);
      EXPECT_EQ(found.sum, long{count} * (count + 1));
    }
  }
}

TEST(btree, a_fold_over_leaves_in_order_is_a_loop) {
  for (const bool in_order : {true, false}) {
    std::vector<std::pair<uint64_t, uint64_t>> pairs(15'000);
    for (uint64_t key = 0; key < pairs.size(); ++key) pairs[key] = {key, 1};
    usual_tree tree;
    // 1000 leaves.
    tree.fill(pairs, [&](size_t leaf) { return in_order ? leaf : leaf * 377 % 1000; });
    const auto count = [&] {
      return tree.fold(uint64_t{0},
                       [](uint64_t sum, uint64_t, uint64_t value) { return sum + value; },
                       std::plus<>{}, {.bytes = size_t{1} << 40});
    };
    EXPECT_EQ(count(), pairs.size());
    // Interleaving cuts the tree into parts.
    const size_t before = test::allocations;
    EXPECT_EQ(count(), pairs.size());
    EXPECT_EQ(test::allocations == before, in_order);
  }
}

TEST(btree, is_filled_in_any_order_of_memory) {
  std::mt19937 chance(5);
  for (const size_t count : {0, 1, 6, 7, 42, 43, 5000, 30'000}) {
    std::vector<std::pair<int, int>> pairs;
    for (size_t at = 0; at < count; ++at)
      pairs.emplace_back(static_cast<int>(3 * at), static_cast<int>(at));
    std::vector<size_t> places(count / small_tree::keys_per_leaf() + 1);
    std::iota(places.begin(), places.end(), size_t{0});
    std::shuffle(places.begin(), places.end() - (count % small_tree::keys_per_leaf() == 0 ? 1 : 0),
                 chance);
    small_tree tree;
    tree.fill(pairs, [&](size_t at) { return places[at]; });
    EXPECT_EQ(tree.size(), count);
    EXPECT_EQ(all_of(tree), pairs);
    // The tree continues to grow.
    std::map<int, int> map(pairs.begin(), pairs.end());
    for (int time = 0; time < 3000; ++time) {
      const int key = static_cast<int>(chance() % 100'000);
      EXPECT_EQ(tree.insert(key, -1), map.emplace(key, -1).second);
    }
    EXPECT_EQ(all_of(tree), all_of(map));
  }
}

TEST(btree, an_insertion_happens_as_a_whole_or_not_at_all) {
  const size_t held = test::allocated;
  {
    small_tree tree;
    int refused = 0;
    for (int key = 0; key < 5000; ++key) {
      test::succeeding = 0;
      bool inserted = false;
      try {
        inserted = tree.insert(key * 7919 % 5000, key);
      } catch (const std::bad_alloc&) {
        test::succeeding = -1;
        ++refused;
        ASSERT_EQ(tree.size(), static_cast<size_t>(key));
        ASSERT_EQ(tree.find(key * 7919 % 5000), nullptr);
        inserted = tree.insert(key * 7919 % 5000, key);
      }
      test::succeeding = -1;
      ASSERT_TRUE(inserted);
    }
    EXPECT_GT(refused, 0);
    EXPECT_EQ(all_of(tree).size(), 5000u);
  }
  EXPECT_EQ(test::allocated, held);
}

TEST(btree, a_batch_that_is_stopped_has_looked_up_the_first_keys) {
  usual_tree tree;
  for (uint64_t key = 0; key < 5000; ++key) tree.insert(key, 2 * key);
  for (const size_t width : widths)
    for (const uint64_t last : {0u, 1u, 100u, 2999u}) {
      std::stop_source source;
      auto keys =
          std::views::iota(uint64_t{0}, uint64_t{3000}) | std::views::transform([&](uint64_t key) {
            if (key == last) source.request_stop();
            return key;
          });
      std::vector<const uint64_t*> found(3000);
      const size_t count =
          tree.multi_get(keys, found.begin(), {.width = width, .stop = source.get_token()});
      EXPECT_GT(count, last);
      for (uint64_t key = 0; key < 3000; ++key)
        ASSERT_EQ(found[key], key < count ? tree.find(key) : nullptr)
            << "width " << width << ", stopped at " << last;
    }
}

TEST(btree, a_batch_without_memory_leaks_nothing) {
  usual_tree tree;
  for (uint64_t key = 0; key < 5000; ++key) tree.insert(key, 2 * key);
  const std::vector<uint64_t> keys{1, 7, 4000, 9000};
  std::vector<const uint64_t*> found(keys.size());
  const size_t held = test::allocated;
  test::succeeding = 0;
  EXPECT_THROW(tree.multi_get(keys, found.begin(), {.width = 8}), std::bad_alloc);
  test::succeeding = -1;
  EXPECT_EQ(test::allocated, held);
  EXPECT_EQ(tree.multi_get(keys, found.begin(), {.width = 8}), keys.size());
  EXPECT_EQ(*found[2], 8000u);
  EXPECT_EQ(found[3], nullptr);
}
