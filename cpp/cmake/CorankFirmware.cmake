# Functions for firmware.

# corank_firmware(NAME BOARD stm32f405|mps2-an386 SOURCES FILE...)
#
# An executable with start-up code, vector table and linker script of a board. It needs no library but the compiler's own.
function(corank_firmware name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BOARD" "SOURCES")
  set(CORANK_MCU_DIR ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../mcu)
  add_executable(${name} ${arg_SOURCES} ${CORANK_MCU_DIR}/board/start.cpp ${CORANK_MCU_DIR}/board/memory.cpp)
  set_source_files_properties(${CORANK_MCU_DIR}/board/memory.cpp PROPERTIES COMPILE_OPTIONS -fno-builtin)
  target_link_libraries(${name} PRIVATE corank::corank)
  target_include_directories(${name} PRIVATE ${CORANK_MCU_DIR})
  target_link_options(${name} PRIVATE -L${CORANK_MCU_DIR}/board -T${arg_BOARD}.ld -Wl,-Map=${name}.map)
  set_target_properties(${name} PROPERTIES SUFFIX .elf LINK_DEPENDS "${CORANK_MCU_DIR}/board/${arg_BOARD}.ld;${CORANK_MCU_DIR}/board/sections.ld")
endfunction()

# The program that reads the table of frames out of a firmware; see `cargo xtask frames --help`. A project elsewhere may set another.
set(CORANK_FRAMES cargo run --quiet --manifest-path ${CMAKE_CURRENT_LIST_DIR}/../../Cargo.toml --package xtask -- frames
    CACHE STRING "Reads the table of coroutine frames")

# corank_exact_slots(NAME)
#
# Lets NAME's slots be declared with `corank::exact("coroutine")`: its sources are built twice in one build step, once with large slots to learn the sizes,
# and then with slots that fit. The first build is never run, and takes as much RAM as it likes.
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
  target_compile_options(${name}-probe PRIVATE ${options} -g)
  target_compile_definitions(${name}-probe PRIVATE ${definitions} CORANK_PROBE)
  target_include_directories(${name}-probe PRIVATE ${includes})
  target_link_libraries(${name}-probe PRIVATE ${libraries})
  target_link_options(${name}-probe PRIVATE ${links} -Wl,--defsym=CORANK_PROBE=1)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}-frames)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${folder}/corank_frames.inc
    COMMAND ${CORANK_FRAMES} $<TARGET_FILE:${name}-probe> --write ${folder}/corank_frames.inc
    DEPENDS ${name}-probe
    COMMENT "Sizes of the coroutine frames of ${name}"
    VERBATIM)
  target_sources(${name} PRIVATE ${folder}/corank_frames.inc)
  target_include_directories(${name} PRIVATE ${folder})
endfunction()

# corank_frames_budget(NAME RAM BYTES)
#
# Prints the table of frames after each link of NAME, and fails the build if its data takes more RAM than that.
function(corank_frames_budget name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RAM" "")
  # Debug information, which is not loaded, has the coroutines' names.
  target_compile_options(${name} PRIVATE -g)
  add_custom_command(TARGET ${name} POST_BUILD COMMAND ${CORANK_FRAMES} $<TARGET_FILE:${name}> --ram ${arg_RAM} VERBATIM)
endfunction()
