# Functions for firmware. See docs/cpp-mcu.md.

get_filename_component(CORANK_MCU_DIR ${CMAKE_CURRENT_LIST_DIR}/../mcu ABSOLUTE CACHE)
mark_as_advanced(CORANK_MCU_DIR)

# The program that reads the table of frames out of a firmware. An installed package has set it.
# Otherwise it is built from its sources.
set(CORANK_FRAMES cargo run --quiet --manifest-path ${CMAKE_CURRENT_LIST_DIR}/../frames/Cargo.toml --
    CACHE STRING "Reads the table of coroutine frames")

# corank_board_vectors(BOARD VARIABLE)
#
# Returns the number of device interrupts of a board's chip; 0 if they share one handler.
function(corank_board_vectors board variable)
  set(stm32f405 82)
  set(mps2-an386 32)
  set(lm3s6965 44)
  set(microbit 32)
  set(riscv-virt 0)
  if(NOT DEFINED ${board})
    message(FATAL_ERROR "there is no board `${board}`, only stm32f405, mps2-an386, lm3s6965, microbit and riscv-virt")
  endif()
  set(${variable} ${${board}} PARENT_SCOPE)
endfunction()

# corank_firmware(NAME BOARD stm32f405|mps2-an386|lm3s6965|microbit|riscv-virt SOURCES FILE... [HAL] [VECTORS NUMBER]
#                 [SCRIPT FILE] [STACK BYTES] [STACK_GUARD ON|OFF])
#
# Adds an executable with start-up code, vector table and linker script of a board. With HAL, it
# also has the interrupt handlers of "hal/hal.hpp". With VECTORS, the table has only that number of
# device interrupts. With SCRIPT, that linker script takes the board's place; it defines the memories
# FLASH and RAM and includes "sections.ld". The link fails if less than STACK bytes (512) are left
# for the stack. The stack is painted and guarded ("board/stack.hpp") unless STACK_GUARD is OFF. The
# firmware needs no library but the compiler's own. Its build fails if a coroutine's frame is larger
# than its slot, and names the coroutine.
function(corank_firmware name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HAL" "BOARD;VECTORS;SCRIPT;STACK;STACK_GUARD" "SOURCES")
  corank_board_vectors("${arg_BOARD}" vectors)
  if(DEFINED arg_VECTORS)
    set(vectors ${arg_VECTORS})
  endif()
  set(board ${CORANK_MCU_DIR}/board)
  if(NOT DEFINED arg_SCRIPT)
    set(arg_SCRIPT ${board}/${arg_BOARD}.ld)
  endif()
  if(NOT DEFINED arg_STACK)
    set(arg_STACK 512)
  endif()
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "riscv32")
    set(vectors_source ${board}/vectors_riscv.cpp)
  else()
    set(vectors_source ${board}/vectors_cortex_m.cpp)
  endif()
  add_executable(${name} ${arg_SOURCES} ${board}/start.cpp ${vectors_source} ${board}/memory.cpp)
  if(NOT DEFINED arg_STACK_GUARD OR arg_STACK_GUARD)
    target_sources(${name} PRIVATE ${board}/stack.cpp)
    target_compile_definitions(${name} PRIVATE CORANK_STACK_GUARD)
  endif()
  string(MAKE_C_IDENTIFIER "${arg_BOARD}" identifier)
  target_compile_definitions(${name} PRIVATE CORANK_DEVICE_VECTORS=${vectors} CORANK_BOARD_${identifier})
  if(arg_HAL)
    target_sources(${name} PRIVATE ${CORANK_MCU_DIR}/hal/${arg_BOARD}/handlers.cpp)
  endif()
  # These stay out of link-time optimisation. Only the assembler knows the names of the devices'
  # handlers in the vector table, and only code generation calls the memory functions.
  set_source_files_properties(${board}/start.cpp ${vectors_source} ${board}/stack.cpp PROPERTIES COMPILE_OPTIONS -fno-lto)
  set_source_files_properties(${board}/memory.cpp PROPERTIES COMPILE_OPTIONS "-fno-lto;-fno-builtin")
  target_link_libraries(${name} PRIVATE corank::corank)
  target_include_directories(${name} PRIVATE ${CORANK_MCU_DIR})
  # Debug information, which is not loaded, has the coroutines' names.
  target_compile_options(${name} PRIVATE -g)
  target_link_options(${name} PRIVATE -L${board} -T${arg_SCRIPT} -Wl,-Map=${name}.map -Wl,--defsym=CORANK_STACK=${arg_STACK})
  set_target_properties(${name} PROPERTIES SUFFIX .elf LINK_DEPENDS "${arg_SCRIPT};${board}/sections.ld")
  # Compiler and linker have already refused such a frame, except with GCC's -O0.
  add_custom_command(TARGET ${name} POST_BUILD COMMAND ${CORANK_FRAMES} $<TARGET_FILE:${name}> --check VERBATIM)
endfunction()

# corank_exact_slots(NAME)
#
# Lets NAME's slots be declared with `corank::exact("coroutine")`. Its sources are built twice in
# one build step: once with large slots to learn the sizes, and then with slots that fit. The first
# build, the probe, is never run, so its RAM is not limited: the boards' linker scripts have more if
# CORANK_PROBE is defined. With another script the linker says that the memory is exceeded, and
# continues.
function(corank_exact_slots name)
  get_target_property(sources ${name} SOURCES)
  get_target_property(options ${name} COMPILE_OPTIONS)
  get_target_property(definitions ${name} COMPILE_DEFINITIONS)
  get_target_property(links ${name} LINK_OPTIONS)
  get_target_property(includes ${name} INCLUDE_DIRECTORIES)
  get_target_property(libraries ${name} LINK_LIBRARIES)
  foreach(list options definitions links includes libraries)
    if(NOT ${list})
      set(${list} "")
    endif()
  endforeach()
  add_executable(${name}-probe EXCLUDE_FROM_ALL ${sources})
  target_compile_options(${name}-probe PRIVATE ${options})
  target_compile_definitions(${name}-probe PRIVATE ${definitions} CORANK_PROBE)
  target_include_directories(${name}-probe PRIVATE ${includes})
  target_link_libraries(${name}-probe PRIVATE ${libraries})
  target_link_options(${name}-probe PRIVATE ${links} -Wl,--defsym=CORANK_PROBE=1 -Wl,--noinhibit-exec)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}-frames)
  file(MAKE_DIRECTORY ${folder})
  # Another version of the program may give other names.
  list(GET CORANK_FRAMES 0 program)
  if(NOT IS_ABSOLUTE ${program})
    set(program "")
  endif()
  add_custom_command(
    OUTPUT ${folder}/corank_frames.inc
    COMMAND ${CORANK_FRAMES} $<TARGET_FILE:${name}-probe> --write ${folder}/corank_frames.inc
    DEPENDS ${name}-probe ${program}
    COMMENT "Sizes of the coroutine frames of ${name}"
    VERBATIM)
  target_sources(${name} PRIVATE ${folder}/corank_frames.inc)
  target_include_directories(${name} PRIVATE ${folder})
endfunction()

# corank_frames_budget(NAME RAM BYTES)
#
# Prints the table of frames after each link of NAME, and fails the build if its data takes more
# than BYTES of RAM.
function(corank_frames_budget name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RAM" "")
  add_custom_command(TARGET ${name} POST_BUILD COMMAND ${CORANK_FRAMES} $<TARGET_FILE:${name}> --ram ${arg_RAM} VERBATIM)
endfunction()
