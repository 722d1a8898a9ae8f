// Protothreads: a task is a function that continues at a label, by a switch over the line number. Written anew from their description; what lies on the stack
// is lost at each yield, so what a task keeps is in a struct.
#pragma once

#define PT_BEGIN(pt)   \
  switch ((pt).line) { \
    case 0:
#define PT_YIELD(pt)      \
  do {                    \
    (pt).line = __LINE__; \
    return false;         \
    case __LINE__:;       \
  } while (false)
#define PT_END(pt) \
  }                \
  (pt).line = 0;   \
  return true

namespace bench {

// Runs `Width` protothreads in turn. `begin(thread)` gives one its next item, false if there is none; `step(thread)` goes on until it yields, true at its end.
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
