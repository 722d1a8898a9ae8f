// The sample application, as a FreeRTOS task that blocks: each interrupt notifies it.
#include "FreeRTOS.h"
#include "task.h"

#include "hal/lm3s6965/registers.hpp"
#include "latency.hpp"
#include "report.hpp"

namespace {

constexpr uint32_t stack_words = 192;
StaticTask_t block;
StackType_t stack[stack_words];
TaskHandle_t task;
volatile uint16_t voltage;
volatile uint32_t ticks;

enum event : uint32_t { pin_low = 1, tick = 2, converted = 4, transferred = 8, sent = 16 };

void notify(event what) {
  BaseType_t woken = pdFALSE;
  xTaskNotifyFromISR(task, what, eSetBits, &woken);
  portYIELD_FROM_ISR(woken);
}

// Waits for one event. Other events that arrive meanwhile are kept.
void wait(event what) {
  static uint32_t seen = 0;
  while ((seen & what) == 0) {
    uint32_t more = 0;
    xTaskNotifyWait(0, ~uint32_t{0}, &more, portMAX_DELAY);
    seen |= more;
  }
  seen &= ~what;
}

void wait_for_pin() {
  hal::gpio_a::digital = 0xFF;
  hal::gpio_a::direction = hal::gpio_a::direction & ~1u;
  hal::gpio_a::level_sense = 1;
  hal::gpio_a::active_high = 0;
  hal::gpio_a::mask = 1;
  hal::enable(hal::gpio_a_irq);
  wait(pin_low);
}

void start_timer() {
  hal::timer0::config = 0;
  hal::timer0::mode = 2;
  hal::timer0::load = sample::period;
  hal::timer0::mask = hal::timer0::timed_out;
  hal::timer0::control = hal::timer0::enabled | hal::timer0::triggers_adc;
  hal::enable(hal::timer0_irq);
}

// Ticks are counted, because a bit would lose those without a waiting task.
void wait_for_tick() {
  while (ticks == 0) wait(tick);
  taskENTER_CRITICAL();
  ticks = ticks - 1;
  taskEXIT_CRITICAL();
}

uint16_t convert(uint32_t channel) {
  hal::adc0::active = 0;
  hal::adc0::trigger = hal::adc0::by_timer;
  hal::adc0::channel = channel;
  hal::adc0::control = hal::adc0::last_and_interrupt;
  hal::adc0::mask = 1;
  hal::adc0::active = 1;
  hal::enable(hal::adc0_irq);
  wait(converted);
  latency::woken();
  return voltage;
}

bool read_axes(uint8_t* into) {
  hal::i2c0::config = 0x10;
  hal::i2c0::mask = 1;
  hal::enable(hal::i2c0_irq);
  hal::i2c0::address = sample::accelerometer * 2u;
  hal::i2c0::data = sample::first_register;
  hal::i2c0::control = hal::i2c0::start | hal::i2c0::run;
  wait(transferred);
  hal::i2c0::address = sample::accelerometer * 2u | 1;
  for (unsigned at = 0; at < sample::axes_bytes; ++at) {
    if ((hal::i2c0::control & hal::i2c0::failed) != 0) return false;
    const uint32_t last = at + 1 == sample::axes_bytes ? hal::i2c0::stop : hal::i2c0::acknowledge;
    hal::i2c0::control = (at == 0 ? hal::i2c0::start : 0) | hal::i2c0::run | last;
    wait(transferred);
    into[at] = static_cast<uint8_t>(hal::i2c0::data);
  }
  return true;
}

void send(const char* text) {
  hal::uart0::control = 0x301;
  hal::uart0::mask = hal::uart0::transmit_interrupt;
  hal::enable(hal::uart0_irq);
  for (; *text != 0; ++text) {
    hal::uart0::data = static_cast<unsigned char>(*text);
    wait(sent);
  }
}

void measure(void*) {
  hal::sysctl::clock_devices();
  latency::start();
  start_timer();
  wait_for_pin();
  for (uint32_t each = 0; each < sample::reports; ++each) {
    wait_for_tick();
    sample::measurement m;
    m.x = convert(sample::channel_x);
    m.y = convert(sample::channel_y);
    if (!read_axes(m.axes)) semihosting::exit(false);
    char line[sample::line_bytes];
    sample::format(m, line);
    send(line);
  }
  latency::show();
  semihosting::exit(true);
}

}  // namespace

extern "C" {
void irq0_handler() {
  hal::gpio_a::mask = 0;
  notify(pin_low);
}
void irq5_handler() {
  hal::uart0::clear = hal::uart0::transmit_interrupt;
  notify(sent);
}
void irq8_handler() {
  hal::i2c0::clear = 1;
  notify(transferred);
}
void irq14_handler() {
  latency::interrupted();
  hal::adc0::clear = 1;
  hal::adc0::active = 0;
  voltage = static_cast<uint16_t>(hal::adc0::fifo);
  notify(converted);
}
void irq19_handler() {
  hal::timer0::clear = hal::timer0::timed_out;
  ticks = ticks + 1;
  notify(tick);
}
void vPortSetupTimerInterrupt() {}
}

int main() {
  task = xTaskCreateStatic(measure, "", stack_words, nullptr, 1, stack, &block);
  vTaskStartScheduler();
}
