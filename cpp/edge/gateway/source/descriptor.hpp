// A file descriptor with an owner.
#pragma once

#include <cerrno>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace gateway {

class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// What a system call gave; throws std::system_error, which says what was being done, if that is -1.
template <class Number>
Number checked(Number result, const char* doing) {
  if (result == -1) throw std::system_error(errno, std::generic_category(), doing);
  return result;
}

}  // namespace gateway
