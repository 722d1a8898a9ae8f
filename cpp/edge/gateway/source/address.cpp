#include "address.hpp"

namespace gateway {

addresses resolve(const std::string& text, int type, bool to_listen) {
  const size_t mark = text.rfind(':');
  if (mark == text.npos) throw std::runtime_error("`" + text + "` is no address; write HOST:PORT");
  std::string host = text.substr(0, mark);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_socktype = type;
  wanted.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), text.substr(mark + 1).c_str(), &wanted, &found);
  if (error != 0) throw std::runtime_error("`" + text + "`: " + gai_strerror(error));
  return addresses(found);
}

std::string address_of(int socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  checked(getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length),
          "asking where a socket listens");
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<sockaddr*>(&bound), length, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  const std::string text = host;
  return (bound.ss_family == AF_INET6 ? '[' + text + ']' : text) + ':' + port;
}

}  // namespace gateway
