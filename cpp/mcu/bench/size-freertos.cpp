// CORANK_TASKS FreeRTOS tasks that switch forever.
#include "pin.hpp"

#if CORANK_TASKS > 0
#include "FreeRTOS.h"
#include "task.h"

namespace {

// The least for a task with the port's 17 saved registers (50 with floating point) and one or two
// calls.
constexpr uint32_t stack_words = 96;
StaticTask_t blocks[CORANK_TASKS];
StackType_t stacks[CORANK_TASKS][stack_words];

void blink(void*) {
  for (;;) {
    toggle();
    taskYIELD();
  }
}

}  // namespace

int main() {
  for (int each = 0; each < CORANK_TASKS; ++each)
    xTaskCreateStatic(blink, "", stack_words, nullptr, 1, stacks[each], &blocks[each]);
  vTaskStartScheduler();
}

#else

int main() {
  for (;;) toggle();
}

#endif
