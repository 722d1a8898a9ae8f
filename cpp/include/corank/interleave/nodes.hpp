// Memory for the nodes of a tree: large pieces, whole cache lines a node.
#pragma once

#include "../prefetch.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace corank::detail {

// Returns the number of keys, at most `Most`, for which a node has room in `Bytes` bytes.
template <template <size_t> class Node, size_t Bytes, size_t Most>
constexpr size_t most_that_fit() {
  if constexpr (sizeof(Node<Most>) <= Bytes)
    return Most;
  else
    return most_that_fit<Node, Bytes, Most - 1>();
}

// Allocates nodes of `Bytes` bytes each, for a node type of any smaller size. All are freed
// together.
template <class Node, size_t Bytes>
class nodes {
  static_assert(Bytes % cache_line == 0 && sizeof(Node) <= Bytes);
  static constexpr size_t usual_piece = 64;
  static constexpr size_t largest_piece = 16384;

 public:
  nodes() = default;
  nodes(const nodes&) = delete;
  nodes& operator=(const nodes&) = delete;
  ~nodes() {
    for (unsigned char* each : pieces_) ::operator delete(each, std::align_val_t{alignment});
  }

  // Allocates a copy of a node.
  Node* take(const Node& node) {
    reserve(1);
    --left_;
    return new (std::exchange(next_, next_ + Bytes)) Node(node);
  }

  // Ensures that the next `count` nodes need no allocation.
  void reserve(size_t count) {
    if (left_ >= count) return;
    const size_t piece = std::max(count, std::clamp(total_, usual_piece, largest_piece));
    next_ = allocate(piece);
    left_ = piece;
  }

  // Allocates `count` adjacent nodes without a content, and returns the first.
  Node* take_many(size_t count) { return reinterpret_cast<Node*>(allocate(count)); }
  // Returns one of them.
  static Node* at(Node* first, size_t index) {
    return reinterpret_cast<Node*>(reinterpret_cast<unsigned char*>(first) + index * Bytes);
  }

  // Returns the number of allocated nodes.
  [[nodiscard]] size_t count() const noexcept { return total_ - left_; }
  [[nodiscard]] size_t bytes() const noexcept { return total_ * Bytes; }

 private:
  static constexpr size_t alignment = cache_line;

  unsigned char* allocate(size_t count) {
    pieces_.reserve(pieces_.size() + 1);
    auto* const memory =
        static_cast<unsigned char*>(::operator new(count * Bytes, std::align_val_t{alignment}));
    pieces_.push_back(memory);
    total_ += count;
    return memory;
  }

  std::vector<unsigned char*> pieces_;
  unsigned char* next_ = nullptr;
  size_t left_ = 0;
  // In all pieces.
  size_t total_ = 0;
};

}  // namespace corank::detail
