// A device's interrupt, and an object that needs memset and memcpy: what link-time optimisation
// must leave alone.
#include <corank/corank.hpp>

#include "board/semihosting.hpp"

namespace {

constexpr unsigned irq = 7;

struct record {
  uint32_t words[40];
};

corank::channel<record, 2> records;
corank::slot<1024> program_slot;

corank::task<> program(corank::in<program_slot>) {
  const record got = co_await records.receive();
  uint32_t sum = 0;
  for (uint32_t word : got.words) sum += word;
  semihosting::print("sum ", sum, "\n");
  semihosting::exit(true);
}

}  // namespace

extern "C" void irq7_handler() {
  static volatile uint32_t two = 2;
  record sent = {};
  sent.words[0] = 40;
  sent.words[39] = two;
  records.try_send(sent);
}

int main() {
  spawn(corank::priority::standard, program({}))->detach();
  corank::executor.run_until_idle();
  // Enables the interrupt and requests it.
  *reinterpret_cast<volatile uint32_t*>(0xE000E100) = 1u << irq;
  *reinterpret_cast<volatile uint32_t*>(0xE000E200) = 1u << irq;
  corank::executor.run();
}
