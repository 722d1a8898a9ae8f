// The frame of `counts` is larger than its slot.
#include <corank/task.hpp>

namespace {

corank::slot<8> counts_slot;
volatile int total;

corank::task<> counts(corank::in<counts_slot>, int to) {
  for (int each = 0; each < to; ++each) {
    total = total + each;
    co_await corank::yield_now{};
  }
}

}  // namespace

int main() {
  spawn(corank::priority::standard, counts({}, 3))->detach();
  corank::executor.run();
}
