# 32-bit RISC-V with clang, which has neither <coroutine> nor any other C++ header for this target.
# The library brings the declarations that it needs. LLVM's linker links, with GCC's libgcc: GNU's
# linker of that GCC crashes at what clang notes about the architecture.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv32)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET riscv32-unknown-elf)
set(CORANK_CPU_FLAGS "-march=rv32imac -mabi=ilp32" CACHE STRING "What to compile for")
set(CMAKE_CXX_FLAGS_INIT "${CORANK_CPU_FLAGS} -ffunction-sections -fdata-sections -fno-exceptions -fno-rtti -fno-threadsafe-statics")
execute_process(
  COMMAND riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32 -print-libgcc-file-name
  OUTPUT_VARIABLE libgcc OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CMAKE_CXX_LINK_EXECUTABLE
    "<CMAKE_CXX_COMPILER> --target=riscv32-unknown-elf ${CORANK_CPU_FLAGS} -fuse-ld=lld-19 -nostdlib -Wl,--gc-sections <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES> ${libgcc}")
