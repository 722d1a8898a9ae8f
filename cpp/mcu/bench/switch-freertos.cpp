// FreeRTOS tasks that yield to each other.
#include "FreeRTOS.h"
#include "task.h"

#include "counter.hpp"

namespace {

constexpr uint32_t stack_words = 96;
StaticTask_t blocks[bench::most_tasks], main_block;
StackType_t stacks[bench::most_tasks][stack_words], main_stack[256];
TaskHandle_t handles[bench::most_tasks], main_task;
volatile uint32_t left;

void yields(void*) {
  for (uint32_t rounds = bench::rounds; rounds != 0; --rounds) taskYIELD();
  left = left - 1;
  if (left == 0) xTaskNotifyGive(main_task);
  vTaskSuspend(nullptr);
}

void measure(uint32_t tasks, uint32_t levels) {
  left = tasks;
  for (uint32_t each = 0; each < tasks; ++each)
    handles[each] = xTaskCreateStatic(yields, "", stack_words, nullptr, 1 + each % levels,
                                      stacks[each], &blocks[each]);
  bench::row("freertos", tasks, levels, 0,
             bench::count([] { ulTaskNotifyTake(pdTRUE, portMAX_DELAY); }));
  for (uint32_t each = 0; each < tasks; ++each) vTaskDelete(handles[each]);
}

void main_body(void*) {
  static constexpr uint32_t tasks[] = {2, 8, 64}, levels[] = {1, 2, 4, 8};
  for (uint32_t n : tasks)
    for (uint32_t l : levels)
      if (l <= n) measure(n, l);
  semihosting::exit(true);
}

}  // namespace

// No tick: SysTick counts instructions.
extern "C" void vPortSetupTimerInterrupt() {}

int main() {
  main_task = xTaskCreateStatic(main_body, "", 256, nullptr, 10, main_stack, &main_block);
  vTaskStartScheduler();
}
