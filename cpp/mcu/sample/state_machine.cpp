// The sample application, as a hand-written state machine. Each interrupt is an event, and the
// state defines the reaction.
#include "hal/lm3s6965/registers.hpp"
#include "latency.hpp"
#include "report.hpp"

namespace {

enum class state : uint8_t {
  waiting_for_pin,
  waiting_for_tick,
  converting_x,
  converting_y,
  sending_register,
  receiving_axis,
  sending_line
};
enum event : uint8_t { pin_low = 1, tick = 2, converted = 4, transferred = 8, sent = 16 };

volatile uint8_t events;
volatile uint8_t ticks;
volatile uint16_t voltage;

state now = state::waiting_for_pin;
sample::measurement m;
char line[sample::line_bytes];
const char* next_byte;
uint32_t axis;
uint32_t done;

void post(event what) { events = events | what; }

void wait_for_pin() {
  hal::gpio_a::digital = 0xFF;
  hal::gpio_a::direction = hal::gpio_a::direction & ~1u;
  hal::gpio_a::level_sense = 1;
  hal::gpio_a::active_high = 0;
  hal::gpio_a::mask = 1;
  hal::enable(hal::gpio_a_irq);
  now = state::waiting_for_pin;
}

void start_timer() {
  hal::timer0::config = 0;
  hal::timer0::mode = 2;
  hal::timer0::load = sample::period;
  hal::timer0::mask = hal::timer0::timed_out;
  hal::timer0::control = hal::timer0::enabled | hal::timer0::triggers_adc;
  hal::enable(hal::timer0_irq);
}

void convert(uint32_t channel, state next) {
  hal::adc0::active = 0;
  hal::adc0::trigger = hal::adc0::by_timer;
  hal::adc0::channel = channel;
  hal::adc0::control = hal::adc0::last_and_interrupt;
  hal::adc0::mask = 1;
  hal::adc0::active = 1;
  hal::enable(hal::adc0_irq);
  now = next;
}

void send_register() {
  hal::i2c0::config = 0x10;
  hal::i2c0::mask = 1;
  hal::enable(hal::i2c0_irq);
  hal::i2c0::address = sample::accelerometer * 2u;
  hal::i2c0::data = sample::first_register;
  now = state::sending_register;
  hal::i2c0::control = hal::i2c0::start | hal::i2c0::run;
}

void receive_axis() {
  if ((hal::i2c0::control & hal::i2c0::failed) != 0) semihosting::exit(false);
  const uint32_t last = axis + 1 == sample::axes_bytes ? hal::i2c0::stop : hal::i2c0::acknowledge;
  now = state::receiving_axis;
  hal::i2c0::control = (axis == 0 ? hal::i2c0::start : 0) | hal::i2c0::run | last;
}

void send_next_byte() {
  now = state::sending_line;
  hal::uart0::data = static_cast<unsigned char>(*next_byte++);
}

void begin_line() {
  sample::format(m, line);
  hal::uart0::control = 0x301;
  hal::uart0::mask = hal::uart0::transmit_interrupt;
  hal::enable(hal::uart0_irq);
  next_byte = line;
  send_next_byte();
}

void step(uint8_t happened) {
  switch (now) {
    case state::waiting_for_pin:
      if ((happened & pin_low) != 0) now = state::waiting_for_tick;
      break;
    case state::waiting_for_tick:
      break;
    case state::converting_x:
      if ((happened & converted) == 0) break;
      latency::woken();
      m.x = voltage;
      convert(sample::channel_y, state::converting_y);
      break;
    case state::converting_y:
      if ((happened & converted) == 0) break;
      latency::woken();
      m.y = voltage;
      send_register();
      break;
    case state::sending_register:
      if ((happened & transferred) == 0) break;
      hal::i2c0::address = sample::accelerometer * 2u | 1;
      axis = 0;
      receive_axis();
      break;
    case state::receiving_axis:
      if ((happened & transferred) == 0) break;
      m.axes[axis++] = static_cast<uint8_t>(hal::i2c0::data);
      if (axis < sample::axes_bytes) {
        receive_axis();
      } else {
        begin_line();
      }
      break;
    case state::sending_line:
      if ((happened & sent) == 0) break;
      if (*next_byte != 0) {
        send_next_byte();
      } else {
        if (++done == sample::reports) {
          latency::show();
          semihosting::exit(true);
        }
        now = state::waiting_for_tick;
      }
      break;
  }
  // A tick may have come before the wait for it.
  if (now == state::waiting_for_tick && ticks > 0) {
    ticks = static_cast<uint8_t>(ticks - 1);
    convert(sample::channel_x, state::converting_x);
  }
}

}  // namespace

extern "C" {
void irq0_handler() {
  hal::gpio_a::mask = 0;
  post(pin_low);
}
void irq5_handler() {
  hal::uart0::clear = hal::uart0::transmit_interrupt;
  post(sent);
}
void irq8_handler() {
  hal::i2c0::clear = 1;
  post(transferred);
}
void irq14_handler() {
  latency::interrupted();
  hal::adc0::clear = 1;
  hal::adc0::active = 0;
  voltage = static_cast<uint16_t>(hal::adc0::fifo);
  post(converted);
}
void irq19_handler() {
  hal::timer0::clear = hal::timer0::timed_out;
  ticks = static_cast<uint8_t>(ticks + 1);
  post(tick);
}
}

int main() {
  hal::sysctl::clock_devices();
  latency::start();
  start_timer();
  wait_for_pin();
  for (;;) {
    asm volatile("cpsid i" ::: "memory");
    const uint8_t happened = events;
    events = 0;
    if (happened == 0) asm volatile("dsb\n\twfi");
    asm volatile("cpsie i\n\tisb" ::: "memory");
    if (happened != 0) step(happened);
  }
}
