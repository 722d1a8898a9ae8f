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

corank::channel<uint8_t, 2> input;
corank::mutex<int> left, right;
uint8_t used;
void use(uint8_t byte) { used = byte; }

corank::slot<120 * sizeof(void*)> wide_slot;  // GCC's frame has each temporary twice

corank::task<> waits_for_several(corank::in<wide_slot>) {
  auto first = co_await corank::any(input.receive(), corank::time::sleep(5));
  if (auto* byte = first.get<0>()) use(*byte);  // converts to the index of what was ready
  test::log(first == 0 ? 'y' : 'n');
}

corank::task<> locks_both(corank::in<wide_slot>) {
  auto [one, other] = co_await corank::all(left.lock(), right.lock());
  test::log(left.is_locked() && right.is_locked() && *one == *other ? 'y' : 'n');
}

int conversions = 0;
void start_conversion() { ++conversions; }
void stop_conversion() { --conversions; }

corank::split_phase_event<uint16_t> converted;

corank::task<> converts(storage) {
  uint16_t volts = co_await converted.after([] { start_conversion(); });  // in a coroutine
  test::log(volts == 7 ? 'y' : 'n');
}

void handler() {
  const uint16_t data = 7;
  converted.complete(data);  // in the handler
}

corank::task<> converts_with_limit(storage) {
  auto volts = co_await corank::time::timeout(
      10, converted.after([] { start_conversion(); }, [] { stop_conversion(); }));
  test::log(volts ? 'y' : 'n');
}

void on_tick() { corank::time::advance(corank::time::now() + 1); }  // SysTick's handler

corank::ticks hardware_time, armed;
corank::ticks counter() { return hardware_time; }
void arm(corank::ticks deadline) { armed = deadline; }

void on_deadline() {  // the handler of a timer without a tick
  corank::time::advance(counter());
  arm(corank::time::next_deadline());
}

corank::task<> sleeps(storage) { co_await corank::time::sleep(10); }

[[maybe_unused]] void run_without_tick() {
  corank::time::on_earlier_deadline(arm);
  for (;;) {
    corank::time::advance(counter());
    executor.run_until_idle();
    executor.sleep();
  }
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

TEST(guide, several_waits_return_their_outputs) {
  for (int round = 0; round < 2; ++round) {
    input.try_send(3);
    auto handle =
        spawn(corank::priority::standard, round == 0 ? waits_for_several({}) : locks_both({}));
    executor.run_until_idle();
    EXPECT_LOG("y");
    handle->detach();
  }
  EXPECT_EQ(used, 3);
  EXPECT_FALSE(left.is_locked());
  EXPECT_TRUE(input.try_receive().has_value());
  EXPECT_ALL_FREE();
}

TEST(guide, a_limit_stops_the_device) {
  conversions = 0;
  auto handle = spawn(corank::priority::standard, converts_with_limit({}));
  executor.run_until_idle();
  EXPECT_EQ(conversions, 1);
  for (int tick = 0; tick < 10; ++tick) on_tick();
  executor.run_until_idle();
  EXPECT_EQ(conversions, 0);
  EXPECT_LOG("n");
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(guide, a_timer_without_a_tick_wakes_at_the_deadline) {
  const corank::ticks start = corank::time::now();
  corank::time::on_earlier_deadline(arm);
  auto handle = spawn(corank::priority::standard, sleeps({}));
  executor.run_until_idle();
  EXPECT_EQ(armed, start + 10);
  hardware_time = armed;
  on_deadline();
  EXPECT_EQ(armed, corank::time::never);
  executor.run_until_idle();
  EXPECT_TRUE(handle->has_exited());
  corank::time::on_earlier_deadline(nullptr);
  handle->detach();
  EXPECT_ALL_FREE();
}
