# 32-bit RISC-V with Debian's riscv64-unknown-elf GCC. Only the compiler's own headers are used, and
# only libgcc is linked.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv32)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER riscv64-unknown-elf-gcc)
set(CMAKE_CXX_COMPILER riscv64-unknown-elf-g++)
set(CMAKE_ASM_COMPILER riscv64-unknown-elf-gcc)
# By that specification the base contains the instructions for control registers; with a newer one,
# the name of the architecture is none for which GCC has a libgcc.
set(CORANK_CPU_FLAGS "-march=rv32imac -mabi=ilp32 -misa-spec=2.2" CACHE STRING "What to compile for")
set(headers "-isystem ${CMAKE_CURRENT_LIST_DIR}/freestanding")
set(CMAKE_C_FLAGS_INIT "${CORANK_CPU_FLAGS} ${headers} -ffunction-sections -fdata-sections")
set(CMAKE_CXX_FLAGS_INIT "${CORANK_CPU_FLAGS} ${headers} -ffunction-sections -fdata-sections -fno-exceptions -fno-rtti -fno-threadsafe-statics -fcoroutines")
set(CMAKE_ASM_FLAGS_INIT "${CORANK_CPU_FLAGS}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-nostartfiles -nostdlib -Wl,--gc-sections")
set(CMAKE_CXX_STANDARD_LIBRARIES "-lgcc")
