// Replays a conformance trace (spec/traces/README.md) on the library. It needs no standard library,
// so that the same code runs on the host and on the target.
#pragma once

#include <stddef.h>

namespace replay {

struct embedded_trace {
  const char* name;
  const char* text;
};

enum class outcome { passed, skipped, failed };

struct report {
  outcome what = outcome::passed;
  unsigned line = 0;         // of the failure, counted from 1
  const char* message = "";  // the error, or the reason for skipping
  unsigned polls = 0;        // the number of polls
};

report run(const embedded_trace& trace);

}  // namespace replay
