# CORANK_FREERTOS: the FreeRTOS kernel's sources, for the comparison in benchmarks and sample. The
# registry has them in a crate, which cargo fetches.
set(CORANK_FREERTOS "" CACHE PATH "FreeRTOS-Kernel's sources; found by cargo if empty")
if(NOT CORANK_FREERTOS)
  execute_process(
    COMMAND cargo metadata --format-version 1 --locked --manifest-path ${CMAKE_CURRENT_LIST_DIR}/../mcu/peers/Cargo.toml
    OUTPUT_VARIABLE metadata COMMAND_ERROR_IS_FATAL ANY)
  string(JSON count LENGTH ${metadata} packages)
  math(EXPR last "${count} - 1")
  foreach(at RANGE ${last})
    string(JSON name GET ${metadata} packages ${at} name)
    if(name STREQUAL "freertos-next")
      string(JSON manifest GET ${metadata} packages ${at} manifest_path)
      get_filename_component(folder ${manifest} DIRECTORY)
      set_property(CACHE CORANK_FREERTOS PROPERTY VALUE ${folder}/FreeRTOS-Kernel)
    endif()
  endforeach()
endif()
