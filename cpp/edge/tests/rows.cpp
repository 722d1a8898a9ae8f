// Each row is worked on once, whatever the width.
#include "containers.hpp"

#include <corank/interleave/rows.hpp>

using test::widths;

TEST(rows, each_is_worked_on_once) {
  for (const size_t width : widths) {
    std::vector<float> matrix(1000 * 64);
    std::vector<float*> rows;
    for (size_t row = 0; row < 1000; ++row) rows.push_back(&matrix[row * 377 % 1000 * 64]);
    EXPECT_EQ(corank::for_each_row(rows, 64,
                                   [](float* row) {
                                     for (int column = 0; column < 64; ++column) row[column] += 1;
                                   },
                                   {.width = width}),
              1000u);
    EXPECT_EQ(matrix, std::vector<float>(1000 * 64, 1));
  }
}

// More than the second cache holds, so that both forms are tried. The last block is shorter, and a
// request to stop is possible.
TEST(rows, many_are_worked_on_once_in_whichever_form) {
  constexpr size_t count = 40'009, columns = 64;
  for (const size_t step : {1, 377})
    for (const bool may_stop : {false, true}) {
      std::vector<float> matrix(count * columns);
      std::vector<float*> rows;
      for (size_t row = 0; row < count; ++row)
        rows.push_back(&matrix[row * step % count * columns]);
      std::stop_source source;
      corank::interleave_options options;
      if (may_stop) options.stop = source.get_token();
      EXPECT_EQ(corank::for_each_row(
                    rows, columns,
                    [](float* row) {
                      for (size_t column = 0; column < columns; ++column) row[column] += 1;
                    },
                    options),
                count);
      EXPECT_EQ(matrix, std::vector<float>(count * columns, 1)) << step << " " << may_stop;
    }
}

TEST(rows, may_be_constant) {
  const std::vector<int> matrix{1, 2, 3, 4, 5, 6};
  const std::vector<const int*> rows{&matrix[3], &matrix[0]};
  int sum = 0;
  corank::for_each_row(rows, 3, [&](const int* row) { sum = 10 * sum + row[0]; });
  EXPECT_EQ(sum, 41);
}
