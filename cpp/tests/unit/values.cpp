// Results, priorities, frame storage.
#include "test.hpp"

using corank::failure;
using corank::priority;
using corank::result;

namespace {

struct counted {
  static inline int alive = 0;
  explicit counted(int v) : value(v) { ++alive; }
  counted(counted&& other) noexcept : value(other.value) { ++alive; }
  ~counted() { --alive; }
  int value;
};

result<counted, char> half(int x) {
  if (x % 2 != 0) return failure{'o'};
  return counted(x / 2);
}

}  // namespace

TEST(values, result_is_a_value_or_an_error) {
  {
    auto good = half(8);
    ASSERT_TRUE(good.has_value());
    EXPECT_EQ(good->value, 4);
    auto bad = half(3);
    EXPECT_FALSE(bad.has_value());
    EXPECT_EQ(bad.error(), 'o');
    good = corank::detail::move(bad);
    EXPECT_EQ(good.error(), 'o');
    bad = half(2);
    EXPECT_EQ(counted::alive, 1);
    EXPECT_EQ(half(10)->value, 5);
  }
  EXPECT_EQ(counted::alive, 0);
  result<void, char> nothing;
  EXPECT_TRUE(nothing.has_value());
}

TEST(values, priorities_are_checked) {
  EXPECT_EQ(priority::from(63)->level(), 63u);
  EXPECT_FALSE(priority::from(64).has_value());
  EXPECT_EQ(priority::standard.level(), 32u);
  EXPECT_TRUE(priority::most_urgent.is_more_urgent_than(priority::least_urgent));
}

namespace {
corank::task<int> anywhere(auto& where, int x) {
  (void)where;
  co_await corank::yield_now{};
  co_return x;
}

struct device {
  corank::task<int> read(corank::slot<32 * sizeof(void*)>& where) {
    (void)where;
    co_return id;
  }
  int id = 3;
};

corank::slot<32 * sizeof(void*)> static_slot;
corank::pool<32 * sizeof(void*), 2> two_slots;

corank::task<counted> makes(test::storage, int x) { co_return counted(x); }
}  // namespace

TEST(values, frames_live_where_the_caller_says) {
  corank::slot<32 * sizeof(void*)> local;
  device thing;
  {
    auto a = spawn(priority{5}, anywhere(static_slot, 1));
    auto b = spawn(priority{5}, anywhere(local, 2));
    auto c = spawn(priority{5}, anywhere(two_slots, 3));
    auto d = spawn(priority{5}, thing.read(local));
    EXPECT_FALSE(d.has_value());
    EXPECT_EQ(two_slots.free(), 1u);
    corank::executor.run_until_idle();
    EXPECT_EQ(*a->take(), 1);
    EXPECT_EQ(*b->take(), 2);
    EXPECT_EQ(*c->take(), 3);
    EXPECT_FALSE(local.is_free());  // the handle still has the result
    b->detach();
    auto e = spawn(priority{5}, thing.read(local));
    corank::executor.run_until_idle();
    EXPECT_EQ(*e->take(), 3);
  }
  EXPECT_TRUE(static_slot.is_free() && local.is_free());
  EXPECT_EQ(two_slots.free(), 2u);
}

TEST(values, output_is_destroyed_once) {
  {
    auto taken = spawn(priority{5}, makes({}, 6));
    auto dropped = spawn(priority{5}, makes({}, 7));
    corank::executor.run_until_idle();
    EXPECT_EQ(counted::alive, 2);
    EXPECT_EQ(taken->take()->value, 6);
  }
  EXPECT_EQ(counted::alive, 0);
  auto detached = spawn(priority{5}, makes({}, 8));
  detached->detach();
  corank::executor.run_until_idle();
  EXPECT_EQ(counted::alive, 0);
  EXPECT_ALL_FREE();
}
