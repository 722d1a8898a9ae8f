# What one compiler is enough for: the cost of each feature, and FreeRTOS.
foreach(feature none call join cancel reprioritize sleep timeout mutex semaphore event channel keys future split_phase_event any generator)
  corank_benchmark(feature-${feature} feature.cpp)
  target_compile_definitions(feature-${feature} PRIVATE CORANK_FEATURE=${feature})
endforeach()

# FreeRTOS itself. Its port to the Cortex-M4 saves the floating-point unit's registers and needs
# code that is compiled for it.
include(FreeRTOS)
enable_language(C)
set(float -mfpu=fpv4-sp-d16 -mfloat-abi=hard)
add_library(freertos OBJECT ${CORANK_FREERTOS}/tasks.c ${CORANK_FREERTOS}/list.c ${CORANK_FREERTOS}/portable/GCC/ARM_CM4F/port.c)
target_include_directories(freertos SYSTEM PUBLIC freertos ${CORANK_FREERTOS}/include ${CORANK_FREERTOS}/portable/GCC/ARM_CM4F)
# With its variables in one section, the compiler reaches them from one address, which saves six
# instructions a switch.
target_compile_options(freertos PRIVATE -${CORANK_BENCH_OPT} -fno-data-sections -w PUBLIC ${float})
function(corank_freertos_benchmark name)
  corank_benchmark(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE freertos)
  target_link_options(${name} PRIVATE ${float})
  set(benchmarks ${benchmarks} PARENT_SCOPE)
endfunction()
corank_freertos_benchmark(switch-freertos switch-freertos.cpp)
foreach(tasks 0 1 2 10)
  corank_size_benchmark(freertos ${tasks} 0)
endforeach()
corank_size_benchmark(freertos 2 0 all-vectors)
