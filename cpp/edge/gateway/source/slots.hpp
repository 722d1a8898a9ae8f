// The memory of datagrams. They are received into a slot, and stay there until they are classified.
#pragma once

#include "wire.hpp"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace gateway {

// Slots of one size, in slabs of many, handed out last in, first out. It grows when no slot is
// left, and keeps its memory.
class slots {
 public:
  // Makes slots for datagrams with `features` features. Each slot has one byte more, by which a
  // larger datagram is detected. Its bins begin a line of the cache.
  explicit slots(size_t features)
      : room_(datagram_bytes(features) + 1),
        stride_((line + room_ - header_bytes + line - 1) / line * line) {}

  [[nodiscard]] size_t room() const { return room_; }

  std::byte* take() {
    if (free_.empty()) grow();
    std::byte* const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  // Takes a slot back. Never throws: there is room for every slot.
  void give_back(std::byte* slot) noexcept { free_.push_back(slot); }

 private:
  static constexpr size_t line = 64;
  static constexpr size_t in_slab = 256;
  static_assert(header_bytes <= line);

  struct freed {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{line}); }
  };

  void grow() {
    slabs_.emplace_back(
        static_cast<std::byte*>(::operator new(in_slab * stride_, std::align_val_t{line})));
    free_.reserve(slabs_.size() * in_slab);
    for (size_t at = in_slab; at > 0; --at)
      free_.push_back(slabs_.back().get() + (at - 1) * stride_ + line - header_bytes);
  }

  size_t room_, stride_;
  std::vector<std::unique_ptr<std::byte, freed>> slabs_;
  std::vector<std::byte*> free_;
};

}  // namespace gateway
