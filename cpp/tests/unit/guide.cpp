// The examples of docs/cpp-mcu.md: `cargo xtask test` checks that each of their lines is here.
#include "test.hpp"

using corank::executor;
using test::storage;

namespace {

corank::task<int> measure(storage) {
  co_await corank::yield_now{};
  co_return 42;
}

corank::task<> spawns(storage) {
  if (auto handle = corank::spawn(corank::priority{5}, measure({}))) {
    auto result = co_await *handle;  // result<int, join_error>; donates its priority meanwhile
    test::log(result && *result == 42 ? 'y' : 'n');
  }
}

int conversions = 0;
void start_conversion() { ++conversions; }

corank::split_phase_event<uint16_t> converted;

corank::task<> converts(storage) {
  uint16_t volts = co_await converted.after([] { start_conversion(); });  // in a coroutine
  test::log(volts == 7 ? 'y' : 'n');
}

void handler() {
  const uint16_t data = 7;
  converted.complete(data);  // in the handler
}

}  // namespace

TEST(guide, a_coroutine_awaits_another) {
  auto handle = spawn(corank::priority::standard, spawns({}));
  executor.run_until_idle();
  EXPECT_LOG("y");
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(guide, a_device_completes_an_operation) {
  auto handle = spawn(corank::priority::standard, converts({}));
  executor.run_until_idle();
  EXPECT_EQ(conversions, 1);
  handler();
  executor.run_until_idle();
  EXPECT_LOG("y");
  handle->detach();
  EXPECT_ALL_FREE();
}
