// CORANK_TASKS state machines that step in turn forever.
#include "pin.hpp"

#if CORANK_TASKS > 0

namespace {

enum class state : uint8_t { begin, yielded };
state machines[CORANK_TASKS];

void blink(state& self) {
  switch (self) {
    case state::begin:
    case state::yielded:
      toggle();
      self = state::yielded;
  }
}

}  // namespace

int main() {
  for (;;)
    for (auto& each : machines) blink(each);
}

#else

int main() {
  for (;;) toggle();
}

#endif
