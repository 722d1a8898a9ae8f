// The port for a guest in one task of FreeRTOS. That task runs the scheduler, and interrupt
// handlers and all other tasks may wake its coroutines. While nothing is ready, the task waits, and
// FreeRTOS runs others.
//
//   compiled with -DCORANK_PORT='"corank/port/freertos.hpp"'
//   void task(void*) {
//     corank::port::attach();
//     ...
//     corank::executor.run();
//   }
//
// FreeRTOS must keep out all interrupts whose handlers use this library: their priorities are not
// above configMAX_SYSCALL_INTERRUPT_PRIORITY. It must offer xTaskGetCurrentTaskHandle,
// xPortIsInsideInterrupt and task notifications, of which this uses the first.
#pragma once

#include "FreeRTOS.h"
#include "task.h"

#include "fatal.hpp"

namespace corank::port {

using saved = UBaseType_t;
// FreeRTOS on one core: another task runs between two instructions of this one.
inline constexpr bool parallel = false;
#if defined(CORANK_TAIL_CALLS)
inline constexpr bool tail_calls = CORANK_TAIL_CALLS;
#elif defined(__ARM_ARCH_ISA_THUMB)
inline constexpr bool tail_calls = __ARM_ARCH_ISA_THUMB >= 2;
#else
inline constexpr bool tail_calls = true;
#endif

// The task that runs the scheduler.
inline TaskHandle_t task = nullptr;

// Makes the task that calls this the one that runs the scheduler.
inline void attach() { task = xTaskGetCurrentTaskHandle(); }

inline saved mask() { return portSET_INTERRUPT_MASK_FROM_ISR(); }
inline void restore(saved before) { portCLEAR_INTERRUPT_MASK_FROM_ISR(before); }

// A notification that came since mask() ends this at once. So no wake is lost.
inline void wait() {
  portCLEAR_INTERRUPT_MASK_FROM_ISR(0);
  ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
  (void)portSET_INTERRUPT_MASK_FROM_ISR();
}

// From the task itself nothing is needed: it checks what is ready before it waits.
inline void poke() {
  const bool is_elsewhere = xPortIsInsideInterrupt() || xTaskGetCurrentTaskHandle() != task;
  if (!is_elsewhere || task == nullptr) return;
  // Masked, so the function for handlers is right in a task as well.
  BaseType_t should_switch = pdFALSE;
  vTaskNotifyGiveFromISR(task, &should_switch);
  portYIELD_FROM_ISR(should_switch);
}

}  // namespace corank::port
