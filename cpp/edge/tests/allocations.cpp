#include "allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

void* allocate(size_t bytes, size_t alignment) {
  if (test::succeeding >= 0 && test::succeeding-- == 0) throw std::bad_alloc();
  void* const memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  ++test::allocations;
  ++test::allocated;
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) --test::allocated;
  free(memory);
}

}  // namespace

void* operator new(size_t bytes) {
  return allocate(bytes == 0 ? 1 : bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }
// By default, the operators for arrays call those above. Sanitizers replace them by their own.
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return operator new(bytes, alignment);
}
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { release(memory); }
