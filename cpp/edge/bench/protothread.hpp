// Runs protothreads in turn.
#pragma once

#include "../../baselines/protothread.hpp"

#include <cstddef>

namespace bench {

// Runs `width` protothreads in turn. `begin(thread)` gives one its next item, or returns false if
// there is none. `step(thread)` runs one until it yields, and returns true at its end.
template <class Thread, class Begin, class Step>
void run_protothreads(size_t width, Begin begin, Step step) {
  Thread threads[64]{};
  size_t living = 0;
  while (living < width && begin(threads[living])) ++living;
  while (living > 0)
    for (size_t at = 0; at < living; ++at)
      if (step(threads[at]) && !begin(threads[at])) threads[at--] = threads[--living];
}

}  // namespace bench
