// The sample application, with coroutines.
#include "hal/hal.hpp"
#include "report.hpp"

namespace {

corank::slot<256> main_slot;
corank::slot<160> bus_slot;
corank::slot<96> serial_slot;

corank::task<> measure(corank::in<main_slot>) {
  corank::in<bus_slot> bus;
  corank::in<serial_slot> serial;
  co_await hal::pin_low(0);
  for (uint32_t each = 0; each < sample::reports; ++each) {
    { auto tick = co_await hal::next_tick(); tick.forget(); }
    sample::measurement m;
    m.x = co_await hal::read_adc(sample::channel_x);
    m.y = co_await hal::read_adc(sample::channel_y);
    if (!co_await hal::read_i2c(bus, sample::accelerometer, sample::first_register, m.axes, sample::axes_bytes)) semihosting::exit(false);
    char line[sample::line_bytes];
    sample::format(m, line);
    co_await hal::send(serial, line);
  }
  semihosting::exit(true);
}

}  // namespace

int main() {
  hal::sysctl::clock_devices();
  hal::start_timer(sample::period);
  spawn(corank::priority::standard, measure({}))->detach();
  corank::executor.run();
}
