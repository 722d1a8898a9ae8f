// Hand-written state machines, one step at a time.
#include "counter.hpp"

namespace {

struct machine {
  enum class state : uint8_t { begin, yielded, done };
  state at;
  uint32_t rounds;
};

void step(machine& self) {
  switch (self.at) {
    case machine::state::yielded:
      --self.rounds;
      [[fallthrough]];
    case machine::state::begin:
      self.at = self.rounds != 0 ? machine::state::yielded : machine::state::done;
      return;
    case machine::state::done:
      return;
  }
}

machine machines[bench::most_tasks];
void (*steps[bench::most_tasks])(machine&);

void measure(uint32_t tasks) {
  for (uint32_t each = 0; each < tasks; ++each) {
    machines[each] = machine{machine::state::begin, bench::rounds};
    steps[each] = step;
    steps[each](machines[each]);
  }
  bench::row("state-machine", tasks, 1, 0, bench::count([tasks] {
               for (uint32_t round = 0; round < bench::rounds; ++round)
                 for (uint32_t each = 0; each < tasks; ++each) steps[each](machines[each]);
             }));
  for (uint32_t each = 0; each < tasks; ++each)
    if (machines[each].at != machine::state::done) semihosting::exit(false);
}

}  // namespace

int main() {
  static constexpr uint32_t tasks[] = {2, 8, 64};
  for (uint32_t n : tasks) measure(n);
  semihosting::exit(true);
}
