# The toolchain file that comes with Corank.
include(${CMAKE_CURRENT_LIST_DIR}/corank.cmake)
include(${CORANK_CMAKE}/arm-none-eabi-gcc.cmake)
