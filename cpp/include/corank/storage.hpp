// Where a coroutine's frame lives. The developer says so for each coroutine, in its first
// parameter:
//
//   corank::slot<96> blink_slot;                                        a static slot, or storage of the caller's, wherever it is defined
//   corank::task<> blink(corank::in<blink_slot>, pin led);              always there; call it as blink({}, led)
//   corank::task<> serve(corank::slot<128>& storage, request r);          where each call says
//   corank::task<> reply(corank::pool<64, 8>& storage, request r);        in a free slot of a pool
//
// Nothing is ever allocated. If the frame does not fit, the program does not build, whatever the
// optimisation, and the message names the coroutine. A frame's size counts everything: the control
// block in front of it is not in `room`.
#pragma once

#include "scheduler.hpp"

namespace corank {

// Room for one frame of at most `Room` bytes. It has no destructor, so that a static one costs no
// code: whoever ends its life early (a slot that is a local variable) lets the coroutine exit, or
// calls clear(), before.
template <size_t Room>
struct slot {
  static constexpr size_t room =
      (Room + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);

  // Room for a frame, behind a control block; null while a coroutine is there. From thread mode.
  [[gnu::always_inline]] void* take() {
#if defined(__clang__)
    // To this compiler, a function is either of the two: not to be expanded, or not to be
    // duplicated; but a call may be the former.
    [[clang::noinline]]
#endif
    return head_.occupy();
  }

  // Cancels what lives here. It must not be running.
  void clear() {
    if (head_.lives()) corank::cancel(coroutine_id(&head_));
  }

  // Whether no coroutine is there, and nobody holds the handle of one that was.
  [[nodiscard]] bool is_free() const { return head_.where() == detail::phase::free; }

 private:
  alignas(max_align_t) detail::block head_{};
  // In a union, so that it needs no first value: neither code for a local slot, nor flash for a
  // static one.
  union {
    unit none_{};
    alignas(max_align_t) unsigned char frame_[room];
  };
};

// `Count` slots. Taking one costs a look at each.
template <size_t Room, size_t Count>
struct pool {
  static constexpr size_t room = slot<Room>::room;

  [[gnu::always_inline]] void* take() {
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
template <auto& Storage>
struct in {
  static constexpr size_t room = Storage.room;
  [[gnu::always_inline]] static void* take() { return Storage.take(); }
};

namespace detail {

template <class P>
concept frame_storage = requires(bare_t<P>& p) {
  bare_t<P>::room;
  { p.take() };
};

#if !defined(__clang__)
// Called only where a frame does not fit, and defined nowhere: GCC refuses the call and says in
// which coroutine it is.
[[gnu::error(
    "corank: the frame of this coroutine does not fit into its slot: raise the slot's room, or see "
    "what its locals need")]]
void frame_does_not_fit_into_its_slot();
#endif

// One line of the table of frames: where in the code, which size, how much room. The section isn't
// loaded; `cargo xtask frames` reads it. And if the frame does not fit, a reference to what nobody
// defines: the link fails, and the linker says in which coroutine.
//
// The size must be a constant when the code is generated. GCC has it in `size` if it optimises;
// else 0 stands for it, and `cargo xtask frames` finds it in the debug information. clang has it at
// any level, in a builtin that it resolves in the coroutine into which this is expanded.
template <size_t Room>
#if defined(__clang__)
[[gnu::nodebug]]  // the linker names the coroutine, then, and not this
#endif
[[gnu::always_inline]] inline void
list_frame([[maybe_unused]] size_t size) {
#if defined(__clang__)
#define CORANK_FRAME_SIZE __builtin_coro_size()
#elif defined(__OPTIMIZE__)
#define CORANK_FRAME_SIZE size
#else
#define CORANK_FRAME_SIZE 0
#endif
  asm volatile(
      ".Lcorank_frame%=:\n"
      "\t.pushsection .corank.frames,\"\",%%progbits\n"
      "\t.dc.a .Lcorank_frame%=\n"
      "\t.long %c0, %c1\n"
      "\t.popsection\n"
      "\t.if %c0 > %c1\n"
      "\t.long corank_frame_does_not_fit_into_its_slot - .\n"
      "\t.endif" ::"i"(CORANK_FRAME_SIZE),
      "i"(Room));
#undef CORANK_FRAME_SIZE
}

// The frame for a coroutine of `size` bytes in `place`, or null if the place is taken.
template <class P>
[[gnu::always_inline]] inline void* take_storage([[maybe_unused]] size_t size, P& storage) {
#if !defined(__clang__)
#if defined(__OPTIMIZE__)
  // After inlining, `size` is a constant. Sooner than the linker, and with the line.
  if (size > P::room) frame_does_not_fit_into_its_slot();
#else
  if (size > P::room) return nullptr;
#endif
  list_frame<P::room>(size);
#endif
  void* frame = storage.take();
  // From here on a piece of memory of its own for the compiler, as an allocator's would be; else
  // both compilers warn of a `delete` of a variable.
  asm("" : "+r"(frame));
  return frame;
}

#if defined(__clang__)
// How much room a coroutine with such parameters has; where none is a place, `operator new` says
// so.
template <class...>
inline constexpr size_t room_among = 0;
template <frame_storage P, class... Others>
inline constexpr size_t room_among<P, Others...> = bare_t<P>::room;
// Behind the object of a member function or a lambda.
template <class Object, frame_storage P, class... Others>
  requires(!frame_storage<Object>)
inline constexpr size_t room_among<Object, P, Others...> = bare_t<P>::room;

// clang may expand a coroutine's creation, `operator new` included, in whoever calls it, and then
// nobody could tell whose frame it is. What destroys the frame stays a function with the
// coroutine's name; so that is where the frame is listed.
template <class Promise, size_t Room>
struct listed : Promise {
  [[gnu::always_inline, gnu::nodebug]] static void operator delete(void* frame,
                                                                   size_t size) noexcept {
    list_frame<Room>(size);
    Promise::operator delete(frame, size);
  }
};
#endif

}  // namespace detail
}  // namespace corank

#if defined(__clang__)
namespace std {
template <class Result, class... Arguments>
  requires requires { typename Result::promise_type::has_frame_storage; }
struct coroutine_traits<Result, Arguments...> {
  using promise_type = corank::detail::listed<typename Result::promise_type,
                                              corank::detail::room_among<Arguments...>>;
};
}  // namespace std
#endif
