# Cortex-M4 with clang, which has neither <coroutine> nor any other C++ header for this target. The
# library brings the declarations that it needs. GNU's linker links.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET arm-none-eabi)
set(CORANK_CPU_FLAGS "-mcpu=cortex-m4 -mthumb -mfloat-abi=soft" CACHE STRING "What to compile for")
set(CMAKE_CXX_FLAGS_INIT "${CORANK_CPU_FLAGS} -ffunction-sections -fdata-sections -fno-exceptions -fno-rtti -fno-threadsafe-statics")
# LLVM's plugin compiles what link-time optimisation has left to the linker.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=LLVMgold.so OUTPUT_VARIABLE plugin OUTPUT_STRIP_TRAILING_WHITESPACE)
if(EXISTS "${plugin}")
  set(plugin -Wl,-plugin=${plugin})
else()
  set(plugin "")
endif()
set(CMAKE_CXX_LINK_EXECUTABLE
    "arm-none-eabi-g++ ${CORANK_CPU_FLAGS} -nostartfiles -nostdlib -Wl,--gc-sections ${plugin} <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES> -lgcc")
