// Rows: each is worked on once, whatever the width.
#include "containers.hpp"

#include <corank/interleave/rows.hpp>

using test::widths;

TEST(rows, each_is_worked_on_once) {
  for (const size_t width : widths) {
    std::vector<float> matrix(1000 * 64);
    std::vector<float*> rows;
    for (size_t row = 0; row < 1000; ++row) rows.push_back(&matrix[row * 377 % 1000 * 64]);
    EXPECT_EQ(corank::for_each_row(rows, 64, [](float* row) { for (int column = 0; column < 64; ++column) row[column] += 1; }, {.width = width}), 1000u);
    EXPECT_EQ(matrix, std::vector<float>(1000 * 64, 1));
  }
}

TEST(rows, may_be_constant) {
  const std::vector<int> matrix{1, 2, 3, 4, 5, 6};
  const std::vector<const int*> rows{&matrix[3], &matrix[0]};
  int sum = 0;
  corank::for_each_row(rows, 3, [&](const int* row) { sum = 10 * sum + row[0]; });
  EXPECT_EQ(sum, 41);
}
