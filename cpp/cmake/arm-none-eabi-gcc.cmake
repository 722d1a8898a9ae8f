# Cortex-M4 with Debian's arm-none-eabi GCC. Only the compiler's own headers are used, and only
# libgcc is linked.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_ASM_COMPILER arm-none-eabi-gcc)
set(CORANK_CPU_FLAGS "-mcpu=cortex-m4 -mthumb" CACHE STRING "What to compile for")
set(CMAKE_C_FLAGS_INIT "${CORANK_CPU_FLAGS} -ffunction-sections -fdata-sections")
set(CMAKE_CXX_FLAGS_INIT "${CORANK_CPU_FLAGS} -ffunction-sections -fdata-sections -fno-exceptions -fno-rtti -fno-threadsafe-statics -fcoroutines")
set(CMAKE_ASM_FLAGS_INIT "${CORANK_CPU_FLAGS}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-nostartfiles -nostdlib -Wl,--gc-sections")
set(CMAKE_CXX_STANDARD_LIBRARIES "-lgcc")
