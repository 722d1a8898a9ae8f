// The examples of docs/cpp-edge.md: `cargo xtask test` checks that each of their lines is here.
#include <corank/interleave/btree.hpp>
#include <corank/interleave/hash_table.hpp>
#include <corank/interleave/rows.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace {

struct node {
  const node* next;
  long value;
};

long sum(const node* at) {
  long total = 0;
  for (; at != nullptr; at = at->next) total += at->value;
  return total;
}

corank::strand<long> sum_in_turn(corank::lane&, const node* at) {
  long total = 0;
  for (; at != nullptr; at = at->next) {
    co_await corank::prefetch(at, sizeof(*at));
    total += at->value;
  }
  co_return total;
}

}  // namespace

TEST(guide, a_loop_becomes_a_strand) {
  const node last{nullptr, 3}, middle{&last, 2}, first{&middle, 1};
  const std::vector<const node*> lists{&first, &last, nullptr};

  std::vector<long> sums = corank::interleave(lists, sum_in_turn, {.width = 16});
  EXPECT_EQ(sums, (std::vector<long>{6, 3, 0}));

  const size_t bytes_of_all_nodes = 3 * sizeof(node);
  sums = corank::interleave(lists, corank::either{sum_in_turn, sum}, {.bytes = bytes_of_all_nodes});
  EXPECT_EQ(sums, (std::vector<long>{6, 3, 0}));
}

TEST(guide, containers_have_batches) {
  const std::vector<uint64_t> keys{1, 2, 3};
  const size_t columns = 4;
  const std::vector<float> matrix(3 * columns, 1);
  const std::vector<const float*> rows{&matrix[8], &matrix[0], &matrix[4]};
  float total = 0;
  auto work = [&](const float* row) { total += row[0] + row[3]; };

  corank::btree<uint64_t, uint64_t> tree;
  tree.insert(2, 4);
  std::vector<const uint64_t*> squares = tree.multi_get(keys);
  uint64_t all = tree.fold(
      uint64_t{0}, [](uint64_t sum, uint64_t, uint64_t value) { return sum + value; },
      std::plus<>{});

  corank::hash_table<uint64_t, uint64_t> table;
  table.insert(3, 9);
  std::vector<const uint64_t*> found = table.multi_find(keys);

  corank::for_each_row(rows, columns, work);

  EXPECT_EQ(*squares[1], 4u);
  EXPECT_EQ(all, 4u);
  EXPECT_EQ(*found[2], 9u);
  EXPECT_EQ(found[0], nullptr);
  EXPECT_EQ(total, 6);
}
