// The stack's high-water mark.
#include "board/stack.hpp"

#include "../unit/test.hpp"

namespace {

[[gnu::noinline]] void takes(size_t words) {
  [[maybe_unused]] volatile uint32_t local[256];
  for (size_t at = 0; at < words; ++at) local[at] = 1;
}

}  // namespace

TEST(stack, the_mark_shows_the_deepest_use) {
  takes(256);
  const size_t used = stack::used();
  EXPECT_TRUE(used >= 1024 && used < stack::size());
  takes(256);
  EXPECT_EQ(stack::used(), used);
  EXPECT_FALSE(stack::has_overflowed());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(_stack_bottom) - reinterpret_cast<uintptr_t>(_stack_guard),
            128u);
}
