# cmake -DOUT=FILE -DFOLDER=FOLDER -P embed.cmake: writes every trace of the folder as an entry of a
# C++ array, so that a firmware has the traces without a file system.
file(GLOB traces ${FOLDER}/*.trace)
list(SORT traces)
set(text "")
foreach(trace ${traces})
  get_filename_component(name ${trace} NAME_WE)
  file(READ ${trace} content)
  string(APPEND text "{\"${name}\", R\"trace(${content})trace\"},\n")
endforeach()
file(WRITE ${OUT} "${text}")
