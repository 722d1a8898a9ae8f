# find_package(corank): the library `corank::corank`, and the functions of CorankFirmware.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/corank-targets.cmake)
get_filename_component(CORANK_PREFIX ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
set(CORANK_FRAMES ${CORANK_PREFIX}/bin/corank-frames CACHE STRING "Reads the table of coroutine frames")
include(${CMAKE_CURRENT_LIST_DIR}/CorankFirmware.cmake)
