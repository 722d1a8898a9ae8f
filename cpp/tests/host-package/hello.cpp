#include <corank/corank.hpp>
#include <cstdio>
#include <cstdlib>

namespace {

// Large enough for each compiler without optimisation.
corank::slot<512> urgent_slot;
corank::slot<512> bulk_slot;

corank::task<> urgent(corank::in<urgent_slot>) {
  std::puts("urgent");
  co_return;
}

corank::task<> bulk(corank::in<bulk_slot>) {
  std::puts("bulk");
  std::exit(0);
  co_return;
}

}  // namespace

int main() {
  spawn(corank::priority{40}, bulk({}))->detach();
  spawn(corank::priority{10}, urgent({}))->detach();
  corank::executor.run();
}
