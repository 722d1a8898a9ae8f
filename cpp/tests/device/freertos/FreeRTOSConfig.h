/* FreeRTOS as the host of the suites. SysTick is theirs, so FreeRTOS has no tick. */
#ifndef CORANK_TESTS_FREERTOS_CONFIG_H
#define CORANK_TESTS_FREERTOS_CONFIG_H

#include "../../../mcu/bench/freertos/FreeRTOSConfig.h"

#undef xPortSysTickHandler
#define xPortSysTickHandler corank_no_tick_handler
#define INCLUDE_xTaskGetCurrentTaskHandle 1

#endif
