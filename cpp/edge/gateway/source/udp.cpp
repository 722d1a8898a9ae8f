#include "udp.hpp"

#include "address.hpp"

#include <algorithm>
#include <cstring>

#include <sys/socket.h>

namespace gateway {

udp_sender::udp_sender(const std::string& to)
    : socket_(first_that_works(to, SOCK_DGRAM, false, [](int socket, const addrinfo* at) {
        return ::connect(socket, at->ai_addr, at->ai_addrlen);
      })) {}

bool udp_sender::send(std::span<const std::byte> datagram) const {
  ssize_t sent;
  do sent = ::send(socket_.get(), datagram.data(), datagram.size(), 0);
  while (sent < 0 && errno == EINTR);
  // A missing receiver is reported by the datagram after the one that found it missing.
  if (sent < 0 && errno == ECONNREFUSED)
    sent = ::send(socket_.get(), datagram.data(), datagram.size(), 0);
  return sent >= 0;
}

udp_receiver::udp_receiver(const std::string& listen, size_t buffer)
    : socket_(first_that_works(listen, SOCK_DGRAM, true, [](int socket, const addrinfo* at) {
        return ::bind(socket, at->ai_addr, at->ai_addrlen);
      })) {
  const int on = 1, wanted = static_cast<int>(std::min<size_t>(buffer, 1 << 30));
  checked(setsockopt(socket_.get(), SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on)),
          "asking for the number of dropped datagrams");
  // CAP_NET_ADMIN allows more than the system's limit. Without it, the system's limit holds.
  if (setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof(wanted)) != 0)
    checked(setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted)),
            "setting the size of the receive buffer");
}

std::string udp_receiver::address() const { return address_of(socket_.get()); }

size_t udp_receiver::buffer() const {
  int granted = 0;
  socklen_t length = sizeof(granted);
  checked(getsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &granted, &length),
          "asking for the size of the receive buffer");
  return static_cast<size_t>(granted);
}

size_t udp_receiver::receive(std::span<std::byte* const> into, size_t room,
                             std::span<size_t> sizes) {
  mmsghdr messages[at_a_time]{};
  iovec parts[at_a_time];
  alignas(cmsghdr) unsigned char control[at_a_time][CMSG_SPACE(sizeof(uint32_t))];
  const size_t count = std::min(into.size(), at_a_time);
  for (size_t at = 0; at < count; ++at) {
    parts[at] = {into[at], room};
    msghdr& message = messages[at].msg_hdr;
    message.msg_iov = &parts[at];
    message.msg_iovlen = 1;
    message.msg_control = control[at];
    message.msg_controllen = sizeof(control[at]);
  }
  // With MSG_TRUNC, a length is that of the datagram, even if the buffer is smaller.
  const int came = recvmmsg(socket_.get(), messages, static_cast<unsigned>(count),
                            MSG_DONTWAIT | MSG_TRUNC, nullptr);
  if (came < 0) {
    // If the kernel has no memory now, the datagrams stay for the next call.
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ||
        errno == ENOMEM)
      return 0;
    checked(came, "receiving datagrams");
  }
  for (int at = 0; at < came; ++at) {
    sizes[static_cast<size_t>(at)] = messages[at].msg_len;
    msghdr& message = messages[at].msg_hdr;
    for (cmsghdr* told = CMSG_FIRSTHDR(&message); told != nullptr;
         told = CMSG_NXTHDR(&message, told)) {
      if (told->cmsg_level != SOL_SOCKET || told->cmsg_type != SO_RXQ_OVFL) continue;
      uint32_t all;
      std::memcpy(&all, CMSG_DATA(told), sizeof(all));
      // The kernel's counter wraps around.
      dropped_ += all - last_dropped_;
      last_dropped_ = all;
    }
  }
  return static_cast<size_t>(came);
}

}  // namespace gateway
