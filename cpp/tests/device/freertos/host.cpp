// The suites run in one task of FreeRTOS; two other tasks wake coroutines.
#include "../../unit/test.hpp"

#include "FreeRTOS.h"
#include "board/semihosting.hpp"
#include "task.h"

void run_tests();

using corank::executor;
using corank::spawn;

namespace {

template <uint32_t Words>
struct task_memory {
  StaticTask_t block;
  StackType_t stack[Words];

  TaskHandle_t create(TaskFunction_t body, UBaseType_t priority) {
    return xTaskCreateStatic(body, "", Words, nullptr, priority, stack, &block);
  }
};

constexpr UBaseType_t of_suites = 3;
task_memory<4096> suites;
task_memory<256> more_urgent, less_urgent;
TaskHandle_t sender;

corank::channel<uint32_t, 2> numbers;
corank::semaphore rounds{0};
uint32_t sum;

// Sends a number for each notification.
void sends(void*) {
  for (uint32_t number = 1;; ++number) {
    ulTaskNotifyTake(pdFALSE, portMAX_DELAY);
    numbers.try_send(number);
  }
}

// Releases permits whenever the suites' task leaves it the processor.
void releases(void*) {
  for (;;) {
    if (rounds.available() == 0) rounds.release();
  }
}

corank::task<> adds(test::storage, uint32_t times) {
  while (times-- > 0) sum += co_await numbers.receive();
}

corank::task<> takes(test::storage, uint32_t times) {
  while (times-- > 0) (co_await rounds.acquire()).forget();
}

void runs_suites(void*) {
  corank::port::attach();
  run_tests();
}

}  // namespace

TEST(guest, a_more_urgent_task_wakes_a_coroutine) {
  auto handle = spawn(corank::priority{5}, adds({}, 3));
  executor.run_until_idle();
  for (int number = 0; number < 3; ++number) {
    xTaskNotifyGive(sender);  // runs at once, and sends
    executor.run_until_idle();
  }
  EXPECT_TRUE(handle->has_exited());
  EXPECT_EQ(sum, 1u + 2u + 3u);
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(guest, a_task_runs_while_no_coroutine_is_ready) {
  auto handle = spawn(corank::priority{5}, takes({}, 100));
  while (!handle->has_exited()) {
    executor.run_until_idle();
    executor.sleep_unless([&] { return handle->has_exited(); });
  }
  handle->detach();
  EXPECT_ALL_FREE();
}

extern "C" {

// FreeRTOS would set up SysTick here.
void vPortSetupTimerInterrupt() {}
}

int main() {
  suites.create(runs_suites, of_suites);
  sender = more_urgent.create(sends, of_suites + 1);
  less_urgent.create(releases, 1);
  vTaskStartScheduler();
  semihosting::exit(false);
}
