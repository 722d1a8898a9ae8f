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

// Returns the result of a system call. If it is -1, throws std::system_error with the name of the
// operation.
template <class Number>
Number checked(Number result, const char* doing) {
  if (result == -1) throw std::system_error(errno, std::generic_category(), doing);
  return result;
}

}  // namespace gateway
