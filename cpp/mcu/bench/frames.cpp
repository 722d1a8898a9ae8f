// Coroutines whose frames the page of figures shows: what GCC keeps apart and clang overlaps.
#include <corank/corank.hpp>

namespace {

corank::channel<int, 2> numbers;
corank::mutex<int> lock;
corank::event rung;
volatile int sink;

corank::slot<512> slots[8];
using slot = corank::slot<512>;

corank::task<> waits_in_turn(slot&) {
  {
    auto guard = co_await lock.lock();
    sink = *guard;
  }
  sink = co_await numbers.receive();
  co_await rung;
}

corank::task<> sends_in_turn(slot&) {
  co_await numbers.send(1);
  co_await numbers.send(2);
  co_await numbers.send(3);
  co_await numbers.send(4);
  co_await numbers.send(5);
}

corank::task<> sends_in_loop(slot&) {
  for (int each = 1; each <= 5; ++each) co_await numbers.send(each);
}

void fill(int (&values)[16]) {
  for (int& each : values) each = sink;
}

corank::task<> arrays_in_blocks(slot&) {
  {
    int values[16];
    fill(values);
    co_await corank::yield_now{};
    sink = values[sink];
  }
  {
    int values[16];
    fill(values);
    co_await corank::yield_now{};
    sink = values[sink];
  }
}

corank::task<> array_for_both(slot&) {
  int values[16];
  for (int round = 0; round < 2; ++round) {
    fill(values);
    co_await corank::yield_now{};
    sink = values[sink];
  }
}

corank::task<> limit_of_temporaries(slot&) {
  sink = (co_await corank::time::timeout(5, numbers.receive())).has_value();
}

corank::task<> limit_of_variables(slot&) {
  auto number = numbers.receive();
  auto limit = corank::time::sleep(5);
  sink = co_await corank::any(number, limit) == 0;
}

}  // namespace

int main() {
  slot* free = slots;
  (void)spawn(corank::priority::standard, waits_in_turn(*free++));
  (void)spawn(corank::priority::standard, sends_in_turn(*free++));
  (void)spawn(corank::priority::standard, sends_in_loop(*free++));
  (void)spawn(corank::priority::standard, arrays_in_blocks(*free++));
  (void)spawn(corank::priority::standard, array_for_both(*free++));
  (void)spawn(corank::priority::standard, limit_of_temporaries(*free++));
  (void)spawn(corank::priority::standard, limit_of_variables(*free++));
  corank::executor.run_until_idle();
}
