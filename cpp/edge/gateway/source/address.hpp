// Addresses in the form of a configuration: `HOST:PORT`, or `[HOST]:PORT` for IPv6.
#pragma once

#include "descriptor.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include <netdb.h>
#include <sys/socket.h>

namespace gateway {

struct addresses_freed {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using addresses = std::unique_ptr<addrinfo, addresses_freed>;

// Resolves a text to addresses for sockets of this type (SOCK_DGRAM, SOCK_STREAM). Throws
// std::runtime_error.
addresses resolve(const std::string& text, int type, bool to_listen);

// Returns the address to which a socket is bound, as a text. Throws std::system_error.
std::string address_of(int socket);

// Returns a socket of this type for the first address that works: `use` returns 0 for it. Throws
// std::runtime_error.
template <class Use>
descriptor first_that_works(const std::string& text, int type, bool to_listen, Use use) {
  const addresses all = resolve(text, type, to_listen);
  int error = 0;
  for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
    descriptor socket(
        ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    if (socket.get() >= 0 && use(socket.get(), each) == 0) return socket;
    error = errno;
  }
  throw std::runtime_error("`" + text + "`: " + std::strerror(error));
}

}  // namespace gateway
