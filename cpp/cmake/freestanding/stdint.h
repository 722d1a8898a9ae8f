// For a compiler without a C library: GCC's own <stdint.h> asks for that of the library, unless all
// of the program is compiled as freestanding.
#pragma once

#include <stdint-gcc.h>
