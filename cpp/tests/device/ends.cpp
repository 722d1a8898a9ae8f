// Programs that end with a message: CORANK_ENDS says how.
#include <corank/corank.hpp>

#include "board/semihosting.hpp"
#include "board/stack.hpp"

namespace {

[[maybe_unused]] corank::slot<96> called_slot, program_slot;
#if CORANK_ENDS == 1
volatile uint32_t zero;

[[gnu::noinline]] uint32_t deep(uint32_t depth) {
  volatile uint32_t locals[8] = {depth};
  // Without an MPU, the program asks.
  if (stack::has_overflowed()) corank::port::fatal("corank: the stack has overflowed");
  return depth == UINT32_MAX ? 0 : deep(depth + 1) + locals[depth % 8];
}
#else
corank::task<> called(corank::in<called_slot>) { co_await corank::wait_for_wake{}; }
#endif

corank::task<> program(corank::in<program_slot>) {
#if CORANK_ENDS == 1
  semihosting::print(deep(zero), "\n");
#else
  auto first = called({});
  co_await called({});  // the slot is taken
#endif
  semihosting::exit(true);
}

}  // namespace

int main() {
  spawn(corank::priority::standard, program({}))->detach();
  corank::executor.run();
}
