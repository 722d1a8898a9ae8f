// Where a coroutine's frame lives. The developer says so for each coroutine, in its first parameter:
//
//   corank::slot<96> blink_slot;                                        a static slot, or storage of the caller's, wherever it is defined
//   corank::task<> blink(corank::in<blink_slot>, pin led);              always there; call it as blink({}, led)
//   corank::task<> serve(corank::slot<128>& place, request r);          where each call says
//   corank::task<> reply(corank::pool<64, 8>& place, request r);        in a free slot of a pool
//
// Nothing is ever allocated. If the frame does not fit, the program does not build (with optimisation; see `frames` below), and the message names
// the coroutine. A frame's size counts everything: the control block in front of it is not in `room`.
#pragma once

#include "scheduler.hpp"

namespace corank {

// Room for one frame of at most `Room` bytes. It has no destructor, so that a static one costs no code: whoever ends its life early (a slot that is a local
// variable) lets the coroutine exit, or calls clear(), before.
template <size_t Room>
struct slot {
  static constexpr size_t room = (Room + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);

  // Room for a frame, behind a control block; null while a coroutine is there. From thread mode.
  void* take() { return head_.occupy(); }

  // Cancels what lives here. It must not be running.
  void clear() {
    if (head_.lives()) corank::cancel(coroutine_id(&head_));
  }

  // Whether no coroutine is there, and nobody holds the handle of one that was.
  [[nodiscard]] bool is_free() const { return head_.where() == detail::phase::free; }

 private:
  alignas(max_align_t) detail::block head_;
  alignas(max_align_t) unsigned char frame_[room];
};

// `Count` slots. Taking one costs a look at each.
template <size_t Room, size_t Count>
struct pool {
  static constexpr size_t room = slot<Room>::room;

  void* take() {
    for (slot<Room>& each : slots_)
      if (void* const frame = each.take()) return frame;
    return nullptr;
  }

  // Cancels all that lives here. None of it must be running.
  void clear() {
    for (slot<Room>& each : slots_) each.clear();
  }

  // How many more coroutines have room here.
  [[nodiscard]] size_t free() const {
    size_t count = 0;
    for (const slot<Room>& each : slots_) count += each.is_free() ? 1 : 0;
    return count;
  }

 private:
  slot<Room> slots_[Count];
};

// A slot or pool of static storage as a type: as a parameter it takes no room in the frame.
template <auto& Place>
struct in {
  static constexpr size_t room = Place.room;
  static void* take() { return Place.take(); }
};

namespace detail {

template <class P>
concept place = requires(bare_t<P>& p) {
  bare_t<P>::room;
  { p.take() };
};

// Called only where a frame does not fit, and defined nowhere. GCC refuses the call and says in which coroutine it is; with clang the link fails, and the linker says it.
#if defined(__GNUC__) && !defined(__clang__)
template <size_t Room>
[[gnu::error("corank: the frame of this coroutine does not fit into its slot: raise the slot's room, or see what its locals need")]]
void frame_does_not_fit_into_its_slot();
#else
template <size_t Room>
void frame_does_not_fit_into_its_slot();
#endif

// The frame for a coroutine of `size` bytes in `place`, or null if the place is taken.
template <class P>
[[gnu::always_inline]] inline void* place_frame(size_t size, P& place) {
#ifdef __OPTIMIZE__
  // After inlining, `size` is a constant.
  if (size > P::room) frame_does_not_fit_into_its_slot<P::room>();
  // One line of the table of frames: where in the code, which size, how much room. The section isn't loaded; `cargo xtask frames` reads it.
  asm volatile(".Lcorank_frame%=:\n\t.pushsection .corank.frames,\"\",%%progbits\n\t.dc.a .Lcorank_frame%=\n\t.long %c0, %c1\n\t.popsection" ::"i"(size),
               "i"(P::room));
#else
  // Without optimisation the compiler does not know the size while it compiles. Then it is checked when the coroutine is created, and spawn says what is wrong.
  if (size > P::room) return nullptr;
#endif
  void* frame = place.take();
  // From here on a piece of memory of its own for the compiler, as an allocator's would be; else both compilers warn of a `delete` of a variable.
  asm("" : "+r"(frame));
  return frame;
}

}  // namespace detail
}  // namespace corank
