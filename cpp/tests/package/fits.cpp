// A coroutine and one that it calls, in slots that fit exactly.
#include <corank/corank.hpp>
#include <corank/exact.hpp>

#include "board/semihosting.hpp"

namespace {

corank::slot<corank::exact("add")> add_slot;
corank::slot<corank::exact("program")> program_slot;

corank::task<unsigned> add(corank::in<add_slot>, unsigned one, unsigned other) {
  co_await corank::yield_now{};
  co_return one + other;
}

corank::task<> program(corank::in<program_slot>) {
  semihosting::print("sum ", co_await add({}, 40, 2), "\n");
  semihosting::exit(true);
}

}  // namespace

int main() {
  spawn(corank::priority::standard, program({}))->detach();
  corank::executor.run();
}
