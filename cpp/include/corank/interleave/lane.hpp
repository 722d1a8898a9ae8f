// Lanes: the frame storage of interleaved coroutines.
//
// A run has one slab, allocated once, with a slot for each lane. A lane is a stack of frames: the
// frame of its item, and those of the calls in it. Each frame has a header that names its lane. So
// a frame can be freed, and a coroutine can yield, without a search.
//
//   slab:   | slot of lane 0          | slot of lane 1          | …
//   slot:   | header | item's frame | header | frame of a call | free |
#pragma once

#include "../meta.hpp"
#include "../prefetch.hpp"

#include <new>

namespace corank {

namespace detail {
struct slab;
struct strand_root;
template <class Value>
struct crew;
template <class Position, class End, class Work, class Output>
class turns;
}  // namespace detail

// A lane: the frame storage of one item at a time. It is a strand's first parameter; pass it on to
// the strands that yours calls. `interleave` makes it and destroys it before it returns.
class alignas(cache_line) lane {
 public:
  lane() = default;
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane();

  // Makes the current item the last one. Items before it are completed; items behind it are
  // cancelled or never begin. This is the loop's `break`.
  void stop() noexcept { last_ = true; }

  // Returns the index of the current item, from 0.
  [[nodiscard]] size_t index() const noexcept { return index_; }

 private:
  friend detail::slab;
  friend detail::strand_root;
  template <class Value>
  friend struct detail::crew;
  template <class Position, class End, class Work, class Output>
  friend class detail::turns;

  // The header in front of every frame.
  struct alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) header {
    lane* owner;
    // The room behind the header, for a frame outside of the slot.
    size_t room;
  };
  // A spare frame outside of the slot; it begins at its header.
  struct spare {
    spare* next;
    size_t room;
  };
  static_assert(sizeof(spare) <= sizeof(header));

  static constexpr size_t rounded(size_t bytes) {
    constexpr size_t unit = alignof(header);
    return sizeof(header) + (bytes + unit - 1) / unit * unit;
  }
  [[gnu::always_inline]] static header* head_of(void* frame) noexcept {
    // For the compiler, the memory in front of the frame is not part of it.
    asm("" : "+r"(frame));
    return static_cast<header*>(frame) - 1;
  }
  [[gnu::always_inline]] static lane* of_frame(void* frame) noexcept {
    return head_of(frame)->owner;
  }

  [[gnu::always_inline]] void* take(size_t bytes) {
    if (rounded(bytes) > static_cast<size_t>(end_ - top_)) return take_elsewhere(bytes);
    auto* const head = reinterpret_cast<header*>(top_);
    top_ += rounded(bytes);
    head->owner = this;
    void* frame = head + 1;
    // Hides the frame's origin from the compiler, as an allocator would.
    asm("" : "+r"(frame));
    return frame;
  }

  [[gnu::always_inline]] static void give_back(void* frame, size_t bytes) noexcept {
    header* const head = head_of(frame);
    lane& owner = *head->owner;
    auto* const at = reinterpret_cast<unsigned char*>(head);
    if (at + rounded(bytes) == owner.top_) {
      owner.top_ = at;
    } else {
      owner.give_back_elsewhere(head);
    }
  }

  void* take_elsewhere(size_t bytes);
  void give_back_elsewhere(header* head) noexcept;

  // The frame to resume: the innermost one.
  void* leaf_ = nullptr;
  lane* next_ = nullptr;
  unsigned char* top_ = nullptr;
  unsigned char* end_ = nullptr;
  // The frame of the living item, and the address of its outcome, which has a type.
  void* item_ = nullptr;
  void* outcome_ = nullptr;
  size_t index_ = 0;
  // Whether the next frame is an item's, and whether the item is the last one.
  bool begins_ = false;
  bool last_ = false;

  // Behind the first line, rarely used: the begin of the slot, the slab, and the spare frames.
  unsigned char* base_ = nullptr;
  detail::slab* slab_ = nullptr;
  spare* spare_ = nullptr;
};

namespace detail {

// The memory of a run's frames. The first frame defines their size.
struct slab {
  // The room in a slot for calls, in bytes. A larger need is allocated, and the lane keeps it.
  static constexpr size_t room_for_calls = 256;

  slab(lane* lanes, size_t width) : lanes_(lanes), width_(width) {
    for (size_t at = 0; at < width; ++at) lanes[at].slab_ = this;
  }
  slab(const slab&) = delete;
  slab& operator=(const slab&) = delete;
  ~slab() {
    if (memory_ != nullptr) ::operator delete(memory_, std::align_val_t{cache_line});
  }

  // Gives each lane a slot, for an item's frame of `bytes` bytes.
  void allocate(size_t bytes) {
    size_t lines = (lane::rounded(bytes) + room_for_calls + cache_line - 1) / cache_line;
    // With an odd number of lines, the begins of the frames share no set of the cache.
    lines |= 1;
    memory_ = static_cast<unsigned char*>(
        ::operator new(lines * cache_line * width_, std::align_val_t{cache_line}));
    for (size_t at = 0; at < width_; ++at) {
      lanes_[at].base_ = lanes_[at].top_ = memory_ + at * lines * cache_line;
      lanes_[at].end_ = lanes_[at].base_ + lines * cache_line;
    }
  }

  [[nodiscard]] bool allocated() const { return memory_ != nullptr; }

 private:
  lane* lanes_;
  size_t width_;
  unsigned char* memory_ = nullptr;
};

}  // namespace detail

// Handles an unallocated slab or a full slot. A lane keeps its frames outside of the slot for
// reuse. So the number of allocations is at most that of frames alive at once.
[[gnu::noinline, gnu::cold]] inline void* lane::take_elsewhere(size_t bytes) {
  if (!slab_->allocated()) {
    slab_->allocate(bytes);
    return take(bytes);
  }
  void* memory = nullptr;
  size_t room = bytes;
  for (spare** link = &spare_; *link != nullptr; link = &(*link)->next)
    if ((*link)->room >= bytes) {
      memory = *link;
      room = (*link)->room;
      *link = (*link)->next;
      break;
    }
  if (memory == nullptr) memory = ::operator new(rounded(bytes));
  return new (memory) header{this, room} + 1;
}

// Frees a frame that is not the last one of the slot. It leaves a hole until the item's own frame,
// the first one, is freed.
[[gnu::noinline, gnu::cold]] inline void lane::give_back_elsewhere(header* head) noexcept {
  auto* const at = reinterpret_cast<unsigned char*>(head);
  if (at == base_) top_ = base_;
  if (at >= base_ && at < end_) return;
  const size_t room = head->room;
  spare_ = new (head) spare{spare_, room};
}

inline lane::~lane() {
  while (spare_ != nullptr) ::operator delete(detail::exchange(spare_, spare_->next));
}

}  // namespace corank
