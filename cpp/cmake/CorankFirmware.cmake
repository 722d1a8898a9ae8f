# Functions for firmware.
set(CORANK_MCU_DIR ${CMAKE_CURRENT_LIST_DIR}/../mcu)

# corank_firmware(NAME BOARD stm32f405|mps2-an386 SOURCES FILE...)
#
# An executable with start-up code, vector table and linker script of a board. It needs no library but the compiler's own.
function(corank_firmware name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BOARD" "SOURCES")
  add_executable(${name} ${arg_SOURCES} ${CORANK_MCU_DIR}/board/start.cpp ${CORANK_MCU_DIR}/board/memory.cpp)
  set_source_files_properties(${CORANK_MCU_DIR}/board/memory.cpp PROPERTIES COMPILE_OPTIONS -fno-builtin)
  target_link_libraries(${name} PRIVATE corank::corank)
  target_include_directories(${name} PRIVATE ${CORANK_MCU_DIR})
  target_link_options(${name} PRIVATE -L${CORANK_MCU_DIR}/board -T${arg_BOARD}.ld -Wl,-Map=${name}.map)
  set_target_properties(${name} PROPERTIES SUFFIX .elf LINK_DEPENDS "${CORANK_MCU_DIR}/board/${arg_BOARD}.ld;${CORANK_MCU_DIR}/board/sections.ld")
endfunction()
