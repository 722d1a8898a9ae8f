# Finds Corank, as CORANK_CMAKE, its folder of CMake files:
#
# 1. the environment variable CORANK: where it was installed, or the repository's folder cpp;
# 2. CORANK_INSTALLED, which the installation has written below;
# 3. the folder above this template.
set(CORANK_INSTALLED "")

set(candidates "$ENV{CORANK}" "${CORANK_INSTALLED}" ${CMAKE_CURRENT_LIST_DIR}/../..)
foreach(folder IN LISTS candidates)
  foreach(cmake share/corank/cmake cmake)
    if(NOT DEFINED CORANK_CMAKE AND NOT folder STREQUAL "" AND EXISTS "${folder}/${cmake}/arm-none-eabi-gcc.cmake")
      set(CORANK_CMAKE ${folder}/${cmake})
    endif()
  endforeach()
endforeach()
if(NOT DEFINED CORANK_CMAKE)
  message(FATAL_ERROR "Corank was not found. Set the environment variable CORANK to the folder in which it was installed, or to the folder `cpp` of its repository.")
endif()
