// Sockets for datagrams. Addresses are `HOST:PORT`, or `[HOST]:PORT` for IPv6.
#pragma once

#include "descriptor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gateway {

class udp_sender {
 public:
  // Connects to an address. Throws std::runtime_error.
  explicit udp_sender(const std::string& to);

  // Sends a datagram; waits while the socket is full. Returns false if there is no receiver or the
  // datagram was refused. It is then lost.
  bool send(std::span<const std::byte> datagram) const;

 private:
  descriptor socket_;
};

// Receives many datagrams with one call.
class udp_receiver {
 public:
  static constexpr size_t at_a_time = 64;

  // `buffer` is the size in bytes of the kernel's receive buffer; the kernel may grant less. Throws
  // std::runtime_error.
  udp_receiver(const std::string& listen, size_t buffer);

  [[nodiscard]] int fd() const { return socket_.get(); }
  // Returns the address, with the chosen port if the requested one was 0.
  [[nodiscard]] std::string address() const;
  // Returns the size in bytes of the kernel's buffer.
  [[nodiscard]] size_t buffer() const;

  // Receives datagrams into the buffers of `into`, at most `room` bytes each; `sizes` gets the
  // lengths that were sent. Returns the number of datagrams, 0 if none is there.
  size_t receive(std::span<std::byte* const> into, size_t room, std::span<size_t> sizes);

  // Returns how many datagrams the kernel has discarded because its buffer was full, as far as
  // later datagrams have reported it.
  [[nodiscard]] uint64_t dropped() const { return dropped_; }

 private:
  descriptor socket_;
  uint64_t dropped_ = 0;
  uint32_t last_dropped_ = 0;
};

}  // namespace gateway
