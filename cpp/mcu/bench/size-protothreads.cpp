// CORANK_TASKS protothreads that run in turn forever.
#include "pin.hpp"

#if CORANK_TASKS > 0

namespace {

struct protothread {
  uint16_t line = 0;
};

bool blink(protothread& self) {
  switch (self.line) {
    case 0:
      for (;;) {
        toggle();
        self.line = __LINE__;
        return false;
        case __LINE__ - 2:;
      }
  }
  return true;
}

protothread threads[CORANK_TASKS];

}  // namespace

int main() {
  for (;;)
    for (auto& each : threads) blink(each);
}

#else

int main() {
  for (;;) toggle();
}

#endif
