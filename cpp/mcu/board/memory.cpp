// The four functions that a compiler calls by itself, and the names that the Arm ABI gives them.
// Built with -fno-builtin, so that they are not compiled into calls of themselves.
#include <stddef.h>
#include <stdint.h>

extern "C" {

void* memcpy(void* to, const void* from, size_t count) {
  auto* t = static_cast<unsigned char*>(to);
  const auto* f = static_cast<const unsigned char*>(from);
  while (count-- > 0) *t++ = *f++;
  return to;
}

void* memmove(void* to, const void* from, size_t count) {
  auto* t = static_cast<unsigned char*>(to);
  const auto* f = static_cast<const unsigned char*>(from);
  if (t < f) return memcpy(to, from, count);
  while (count-- > 0) t[count] = f[count];
  return to;
}

void* memset(void* to, int value, size_t count) {
  auto* t = static_cast<unsigned char*>(to);
  while (count-- > 0) *t++ = static_cast<unsigned char>(value);
  return to;
}

int memcmp(const void* one, const void* other, size_t count) {
  const auto* a = static_cast<const unsigned char*>(one);
  const auto* b = static_cast<const unsigned char*>(other);
  for (; count-- > 0; ++a, ++b)
    if (*a != *b) return *a - *b;
  return 0;
}

#if defined(__arm__)
void __aeabi_memclr(void* to, size_t count) { memset(to, 0, count); }
void __aeabi_memclr4(void* to, size_t count) { memset(to, 0, count); }
void __aeabi_memclr8(void* to, size_t count) { memset(to, 0, count); }
void __aeabi_memset(void* to, size_t count, int value) { memset(to, value, count); }
void __aeabi_memset4(void* to, size_t count, int value) { memset(to, value, count); }
void __aeabi_memset8(void* to, size_t count, int value) { memset(to, value, count); }
void __aeabi_memcpy(void* to, const void* from, size_t count) { memcpy(to, from, count); }
void __aeabi_memcpy4(void* to, const void* from, size_t count) { memcpy(to, from, count); }
void __aeabi_memcpy8(void* to, const void* from, size_t count) { memcpy(to, from, count); }
void __aeabi_memmove(void* to, const void* from, size_t count) { memmove(to, from, count); }
void __aeabi_memmove4(void* to, const void* from, size_t count) { memmove(to, from, count); }
void __aeabi_memmove8(void* to, const void* from, size_t count) { memmove(to, from, count); }
#endif
}
