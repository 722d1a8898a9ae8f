// Protothreads: see baselines/protothread.hpp.
#include "../../baselines/protothread.hpp"
#include "counter.hpp"

namespace {

struct protothread {
  uint16_t line;
  uint32_t rounds;
};

bool yields(protothread& self) {
  PT_BEGIN(self);
  for (; self.rounds != 0; --self.rounds) PT_YIELD(self);
  PT_END(self);
}

protothread threads[bench::most_tasks];
bool (*bodies[bench::most_tasks])(protothread&);

void measure(uint32_t tasks) {
  for (uint32_t each = 0; each < tasks; ++each) {
    threads[each] = protothread{0, bench::rounds};
    bodies[each] = yields;
    bodies[each](threads[each]);
  }
  bench::row("protothreads", tasks, 1, 0, bench::count([tasks] {
               for (uint32_t round = 0; round < bench::rounds; ++round)
                 for (uint32_t each = 0; each < tasks; ++each) bodies[each](threads[each]);
             }));
  for (uint32_t each = 0; each < tasks; ++each)
    if (threads[each].line != 0) semihosting::exit(false);
}

}  // namespace

int main() {
  static constexpr uint32_t tasks[] = {2, 8, 64};
  for (uint32_t n : tasks) measure(n);
  semihosting::exit(true);
}
