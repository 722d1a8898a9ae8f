// The sample application, with coroutines.
#include <corank/exact.hpp>

#include "hal/hal.hpp"
#include "latency.hpp"
#include "report.hpp"

namespace {

corank::slot<corank::exact("measure")> main_slot;
corank::slot<corank::exact("read_i2c")> bus_slot;
corank::slot<corank::exact("send")> serial_slot;

corank::task<> measure(corank::in<main_slot>) {
  corank::in<bus_slot> bus;
  corank::in<serial_slot> serial;
  co_await hal::pin_low(0);
  for (uint32_t each = 0; each < sample::reports; ++each) {
    (co_await hal::next_tick()).forget();
    sample::measurement m;
    m.x = co_await hal::read_adc(sample::channel_x);
    latency::woken();
    m.y = co_await hal::read_adc(sample::channel_y);
    latency::woken();
    if (!co_await hal::read_i2c(bus, sample::accelerometer, sample::first_register, m.axes,
                                sample::axes_bytes))
      semihosting::exit(false);
    char line[sample::line_bytes];
    sample::format(m, line);
    co_await hal::send(serial, line);
  }
  latency::show();
  semihosting::exit(true);
}

}  // namespace

int main() {
  hal::sysctl::clock_devices();
  latency::start();
  hal::start_timer(sample::period);
  spawn(corank::priority::standard, measure({}))->detach();
  corank::executor.run();
}
