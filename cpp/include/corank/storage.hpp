// Frame storage: the memory in which a coroutine's frame lies. The first parameter of each
// coroutine selects it:
//
//   corank::slot<96> blink_slot;
//       a static slot; a slot may also be a local variable or a member
//   corank::task<> blink(corank::in<blink_slot>, pin led);
//       always in blink_slot; call it as blink({}, led)
//   corank::task<> serve(corank::slot<128>& storage, request r);
//       in the slot that each call passes
//   corank::task<> reply(corank::pool<64, 8>& storage, request r);
//       in a free slot of a pool
//
// Nothing is allocated on a heap. A frame that does not fit fails the build at every optimisation
// level, and the message names the coroutine. `room` counts the whole frame, without the control
// block in front of it.
#pragma once

#include "scheduler.hpp"

namespace corank {

// Storage for one frame of at most `Room` bytes. It has no destructor, so a static slot needs no
// code. Before a slot that is a local variable ends, its coroutine must have exited, or clear()
// must be called.
template <size_t Room>
struct slot {
  static constexpr size_t room =
      (Room + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);

  // Reserves the slot and returns the frame's address, behind the control block. Returns null if
  // the slot is in use. For thread mode.
  [[gnu::always_inline]] void* take() {
#if defined(__clang__)
    // clang accepts either noinline or noduplicate on a function, but a call may carry the former.
    [[clang::noinline]]
#endif
    return head_.occupy();
  }

  // Cancels the coroutine in this slot, which must not be running.
  void clear() {
    if (head_.lives()) corank::cancel(coroutine_id(&head_));
  }

  // Tests whether the slot has no coroutine and no handle of an earlier one.
  [[nodiscard]] bool is_free() const { return head_.where() == detail::phase::free; }

 private:
  alignas(max_align_t) detail::block head_{};
  // A member of a union has no initial value. So a local slot needs no code and a static one no
  // flash.
  union {
    unit none_{};
    alignas(max_align_t) unsigned char frame_[room];
  };
};

// A pool of `Count` slots. Reserving one checks each slot in turn.
template <size_t Room, size_t Count>
struct pool {
  static constexpr size_t room = slot<Room>::room;

  [[gnu::always_inline]] void* take() {
    for (slot<Room>& each : slots_)
      if (void* const frame = each.take()) return frame;
    return nullptr;
  }

  // Cancels all coroutines in this pool. None of them may be running.
  void clear() {
    for (slot<Room>& each : slots_) each.clear();
  }

  // Returns the number of free slots.
  [[nodiscard]] size_t free() const {
    size_t count = 0;
    for (const slot<Room>& each : slots_) count += each.is_free() ? 1 : 0;
    return count;
  }

 private:
  slot<Room> slots_[Count];
};

// Names a slot or pool of static storage as a type. As a parameter it takes no room in the frame.
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
// Rejects a frame that does not fit. It has no definition: GCC reports the call and the coroutine
// that contains it. By the attribute `access` it also warns with both sizes: "writing 120 bytes
// into a region of size 96".
[[gnu::access(write_only, 1, 2),
  gnu::error("corank: the frame of this coroutine does not fit into its slot: raise the slot's "
             "room, or see what its locals need")]]
void frame_does_not_fit_into_its_slot(void* slot, size_t frame);
extern unsigned char* of_unknown_room;
#endif

// Adds one line to the table of frames: code address, frame size, room. The section is not loaded;
// `cargo xtask frames` reads it. If the frame does not fit, the line refers to an undefined symbol.
// Then the link fails, and the linker names the coroutine.
//
// The size must be a constant when the code is generated. GCC has it in `size` if it optimises.
// Otherwise the table has 0, and `cargo xtask frames` takes the size from the debug information.
// clang has the size at every level, in a builtin that it resolves after expanding this function in
// the coroutine.
template <size_t Room>
#if defined(__clang__)
[[gnu::nodebug]]  // the linker then names the coroutine instead of this function
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

// Returns storage for a frame of `size` bytes in `storage`, or null if it is in use.
template <class P>
[[gnu::always_inline]] inline void* take_storage([[maybe_unused]] size_t size, P& storage) {
#if !defined(__clang__)
#if defined(__OPTIMIZE__)
  // After inlining, `size` is a constant: GCC reports the error before the linker, with the line.
  if (size > P::room) {
    unsigned char slot[P::room];
    // Before this is inlined, neither size is known, so that there is no warning then.
    frame_does_not_fit_into_its_slot(__builtin_constant_p(size) ? slot : of_unknown_room, size);
  }
#else
  if (size > P::room) return nullptr;
#endif
  list_frame<P::room>(size);
#endif
  void* frame = storage.take();
  // Hides the frame's origin from the compiler, as an allocator would. Otherwise both compilers
  // warn of a `delete` of a variable.
  asm("" : "+r"(frame));
  return frame;
}

#if defined(__clang__)
// The room of the storage among a coroutine's parameters. Without storage, `operator new` reports
// the error.
template <class...>
inline constexpr size_t room_among = 0;
template <frame_storage P, class... Others>
inline constexpr size_t room_among<P, Others...> = bare_t<P>::room;
// The storage follows the object of a member function or a lambda.
template <class Object, frame_storage P, class... Others>
  requires(!frame_storage<Object>)
inline constexpr size_t room_among<Object, P, Others...> = bare_t<P>::room;

// Lists the frame in the function that destroys it. clang may expand a coroutine's creation,
// `operator new` included, in the caller, and the address then no longer names the coroutine. The
// function that destroys the frame keeps the coroutine's name.
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
