// The hash table behaves as the standard library's, whatever the width.
#include "allocations.hpp"
#include "containers.hpp"

#include <corank/interleave/hash_table.hpp>

#include <map>
#include <unordered_map>

using test::change_both;
using test::widths;

TEST(hash_table, an_insertion_happens_as_a_whole_or_not_at_all) {
  const size_t held = test::allocated;
  {
    corank::hash_table<int, int> table;
    int refused = 0;
    for (int key = 0; key < 1000; ++key) {
      test::succeeding = 0;
      try {
        table.insert(key, key);
      } catch (const std::bad_alloc&) {
        test::succeeding = -1;
        ++refused;
        ASSERT_EQ(table.size(), static_cast<size_t>(key));
        ASSERT_EQ(table.find(key), nullptr);
        ASSERT_TRUE(table.insert(key, key));
      }
      test::succeeding = -1;
    }
    EXPECT_GT(refused, 0);
    for (int key = 0; key < 1000; ++key) ASSERT_EQ(*table.find(key), key);
  }
  EXPECT_EQ(test::allocated, held);
}

TEST(hash_table, is_like_an_unordered_map) {
  std::mt19937 chance(6);
  for (const unsigned range : {10u, 300u, 100'000u}) {
    corank::hash_table<unsigned, int> table;
    std::unordered_map<unsigned, int> map;
    change_both(table, map, 30'000, chance,
                [&] { return static_cast<unsigned>(chance() % range); });
    std::vector<unsigned> keys(5000);
    for (unsigned& key : keys) key = chance() % (2 * range);
    std::vector<const int*> expected;
    for (const unsigned key : keys) expected.push_back(table.find(key));
    for (const size_t width : widths) EXPECT_EQ(table.multi_find(keys, {.width = width}), expected);
  }
}

namespace {
// All keys that are equal modulo 4 collide, and probing wraps around the end of the table.
struct bad_hash {
  size_t operator()(int key) const { return static_cast<size_t>(key % 4) - 2; }
};
}  // namespace

TEST(hash_table, survives_collisions) {
  std::mt19937 chance(7);
  corank::hash_table<int, int, bad_hash> table;
  std::map<int, int> map;
  for (int time = 0; time < 20'000; ++time) {
    const int key = static_cast<int>(chance() % 60);
    if (chance() % 2 == 0) {
      EXPECT_EQ(table.erase(key), map.erase(key) == 1);
    } else {
      EXPECT_EQ(table.insert(key, time), map.emplace(key, time).second);
    }
    for (int each = 0; each < 60; ++each) {
      const int* const found = table.find(each);
      ASSERT_EQ(found != nullptr, map.contains(each));
      if (found != nullptr) {
        ASSERT_EQ(*found, map[each]);
      }
    }
  }
}

TEST(hash_table, an_empty_one_has_no_key) {
  const corank::hash_table<int, int> table;
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.bytes(), 0u);
  const std::vector<int> keys{1, 2};
  for (const size_t width : widths)
    EXPECT_EQ(table.multi_find(keys, {.width = width}),
              (std::vector<const int*>{nullptr, nullptr}));
}
