# cmake --install: the headers, the package for find_package(), boards and HAL, toolchain files, and
# the reader of the table of frames.
include(CMakePackageConfigHelpers)

option(CORANK_INSTALL_FRAMES "Installs corank-frames, which checks the frames of a firmware; it is built by cargo" ON)
set(CORANK_FRAMES_PROFILE release CACHE STRING "Cargo's profile for the reader of the table of frames that is installed")

install(TARGETS corank EXPORT corank-targets)
install(EXPORT corank-targets NAMESPACE corank:: DESTINATION share/corank/cmake)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/corank-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(DIRECTORY include/corank DESTINATION include)
install(DIRECTORY mcu/board mcu/hal DESTINATION share/corank/mcu)
install(
  FILES cmake/corank-config.cmake cmake/CorankFirmware.cmake cmake/arm-none-eabi-gcc.cmake cmake/arm-none-eabi-clang.cmake
        cmake/riscv32-gcc.cmake cmake/riscv32-clang.cmake ${CMAKE_CURRENT_BINARY_DIR}/corank-config-version.cmake
  DESTINATION share/corank/cmake)
install(DIRECTORY cmake/freestanding DESTINATION share/corank/cmake)
install(DIRECTORY template DESTINATION share/corank PATTERN build EXCLUDE)
# A copy of the installed template finds this installation.
install(CODE "
  set(file \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/corank/template/cmake/corank.cmake)
  file(READ \${file} text)
  string(REPLACE \"set(CORANK_INSTALLED \\\"\\\")\" \"set(CORANK_INSTALLED \\\"\${CMAKE_INSTALL_PREFIX}\\\")\" text \"\${text}\")
  file(WRITE \${file} \"\${text}\")
")
configure_file(cmake/corank.pc.in corank.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/corank.pc DESTINATION share/pkgconfig)
if(CORANK_INSTALL_FRAMES)
  install(CODE "
    message(STATUS \"Building corank-frames\")
    execute_process(
      COMMAND cargo install --quiet --locked --no-track --force --profile ${CORANK_FRAMES_PROFILE} --path ${CMAKE_CURRENT_SOURCE_DIR}/frames
              --root \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}
      COMMAND_ERROR_IS_FATAL ANY)
  ")
endif()
