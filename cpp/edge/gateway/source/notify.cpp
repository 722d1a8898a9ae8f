#include "notify.hpp"

#include "descriptor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>

namespace gateway {

void notify(const char* state) {
  const char* const name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un to{};
  // The address is a file, or an abstract name of Linux, which begins with a zero and is written
  // with `@`.
  if (name == nullptr || (name[0] != '/' && name[0] != '@') ||
      std::strlen(name) >= sizeof(to.sun_path))
    return;
  to.sun_family = AF_UNIX;
  std::strcpy(to.sun_path, name);
  if (name[0] == '@') to.sun_path[0] = 0;
  const descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(name));
  // A service manager that does not read its notifications is ignored.
  [[maybe_unused]] const ssize_t sent =
      sendto(socket.get(), state, std::strlen(state), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&to), length);
}

}  // namespace gateway
