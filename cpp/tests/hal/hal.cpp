// Every operation of the HAL is completed only by its device's interrupt. Each test masks
// interrupts, waits until the device requests one, and checks that the coroutine still waits. Only
// then does it let the interrupt through.
#include "hal/hal.hpp"

#include "../unit/test.hpp"

using corank::executor;
using corank::priority;
using corank::spawn;

namespace {

// Runs `work` until it has ended; `interrupts` is the least number of `irq` for which it must wait.
// Returns false if the coroutine continues without them. If the device never raises its interrupt,
// this never returns: the test run has a time limit.
bool by_interrupts(corank::task<> work, unsigned irq, unsigned interrupts) {
  asm volatile("cpsid i" ::: "memory");
  auto handle = spawn(priority{5}, corank::detail::move(work));
  bool good = handle.has_value();
  unsigned seen = 0;
  while (good) {
    executor.run_until_idle();
    if (handle->has_exited()) break;
    // The core also wakes for a masked interrupt.
    while (!hal::is_pending(irq)) asm volatile("dsb\n\twfi");
    executor.run_until_idle();
    good = !handle->has_exited();
    ++seen;
    // The interrupt is taken here.
    asm volatile("cpsie i\n\tisb\n\tcpsid i" ::: "memory");
  }
  if (handle) {
    handle->cancel();
    handle->detach();
  }
  asm volatile("cpsie i" ::: "memory");
  return good && seen >= interrupts;
}

corank::task<> waits_for_ticks(test::storage, int count) {
  for (; count > 0; --count) (co_await hal::next_tick()).forget();
}

corank::task<> sends(test::storage, const char* text) {
  for (; *text != 0; ++text) co_await hal::send_byte(*text);
}

// The text that the tests' runner sends to the serial port.
constexpr char input[] = "ping";

corank::task<> receives(test::storage, bool& right) {
  hal::start_serial();
  right = true;
  for (const char* expected = input; *expected != 0; ++expected)
    right = co_await hal::receive_byte() == *expected && right;
}

}  // namespace

TEST(hal, the_timer_ticks) {
  hal::start_timer(20000);
  EXPECT_TRUE(by_interrupts(waits_for_ticks({}, 3), hal::timer0_irq, 3));
  EXPECT_ALL_FREE();
}

#if defined(CORANK_BOARD_lm3s6965)
constexpr unsigned send_irq = hal::uart0_irq, receive_irq = hal::uart0_irq;
#else
constexpr unsigned send_irq = hal::uart0_send_irq, receive_irq = hal::uart0_receive_irq;
#endif

TEST(hal, the_serial_port_sends_and_receives) {
  bool right = false;
  EXPECT_TRUE(by_interrupts(receives({}, right), receive_irq, 1));
  EXPECT_TRUE(right);
  EXPECT_TRUE(by_interrupts(sends({}, "pong\n"), send_irq, 5));
  EXPECT_ALL_FREE();
}

#if defined(CORANK_BOARD_lm3s6965)

namespace {

corank::task<> waits_for_pin(test::storage) { co_await hal::pin_low(0); }

corank::task<> converts(test::storage, uint16_t& x, uint16_t& y) {
  x = co_await hal::read_adc(0);
  y = co_await hal::read_adc(1);
}

// QEMU's magnetometer; its registers 10 to 12 identify it.
constexpr uint8_t magnetometer = 0x1E, absent = 0x22;
corank::slot<160> bus_slot;

corank::task<> reads_bus(test::storage, uint8_t device, uint8_t (&identity)[3],
                         bool& acknowledged) {
  corank::in<bus_slot> storage;
  acknowledged = (co_await hal::read_i2c(storage, device, 10, identity, 3)).has_value();
}

}  // namespace

TEST(hal, a_pin_interrupts) {
  EXPECT_TRUE(by_interrupts(waits_for_pin({}), hal::gpio_a_irq, 1));
  EXPECT_ALL_FREE();
}

TEST(hal, the_adc_converts_two_channels) {
  uint16_t x = 0xFFFF, y = 0xFFFF;
  EXPECT_TRUE(by_interrupts(converts({}, x, y), hal::adc0_irq, 2));
  EXPECT_TRUE(x < 1024 && y < 1024);
  EXPECT_ALL_FREE();
}

TEST(hal, the_bus_reads_a_device) {
  uint8_t identity[3] = {};
  bool acknowledged = false;
  EXPECT_TRUE(by_interrupts(reads_bus({}, magnetometer, identity, acknowledged), hal::i2c0_irq, 4));
  EXPECT_TRUE(acknowledged && identity[0] == 'H' && identity[1] == '4' && identity[2] == '3');
  EXPECT_ALL_FREE();
}

TEST(hal, an_absent_device_does_not_acknowledge) {
  uint8_t identity[3] = {};
  bool acknowledged = true;
  spawn(priority{5}, reads_bus({}, absent, identity, acknowledged))->detach();
  executor.run_until_idle();
  EXPECT_FALSE(acknowledged);
  EXPECT_ALL_FREE();
}

#endif
