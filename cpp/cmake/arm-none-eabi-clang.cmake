# Cortex-M4 with clang, which has neither <coroutine> nor any other C++ header for this target. The
# library brings the declarations that it needs. GNU's linker links.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET arm-none-eabi)
set(CORANK_CPU_FLAGS "-mcpu=cortex-m4 -mthumb -mfloat-abi=soft" CACHE STRING "What to compile for")
set(CMAKE_CXX_FLAGS_INIT "${CORANK_CPU_FLAGS} -ffunction-sections -fdata-sections -fno-exceptions -fno-rtti -fno-threadsafe-statics")
set(CMAKE_CXX_LINK_EXECUTABLE
    "arm-none-eabi-g++ -mcpu=cortex-m4 -mthumb -nostartfiles -nostdlib -Wl,--gc-sections <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES> -lgcc")
