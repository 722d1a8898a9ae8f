#include "page_server.hpp"

#include "address.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds pause_after_shortage{100};

std::string response(const char* status, std::string_view type, std::string_view body) {
  std::string made = "HTTP/1.1 ";
  made.append(status)
      .append("\r\nContent-Type: ")
      .append(type)
      .append("\r\nContent-Length: ")
      .append(std::to_string(body.size()))
      .append("\r\nConnection: close\r\n\r\n");
  return made.append(body);
}

std::string refusal(const char* status) {
  return response(status, "text/plain", std::string(status) + "\n");
}

int listen_at(int socket, const addrinfo* at) {
  const int on = 1;
  if (fcntl(socket, F_SETFL, O_NONBLOCK) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket, at->ai_addr, at->ai_addrlen) != 0)
    return -1;
  return ::listen(socket, SOMAXCONN);
}

}  // namespace

page_server::page_server(const std::string& listen, std::string path,
                         std::function<std::string()> page)
    : path_(std::move(path)),
      page_(std::move(page)),
      listener_(first_that_works(listen, SOCK_STREAM, true, listen_at)),
      stop_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "waiting for a thread")),
      thread_([this] { serve(); }) {}

page_server::~page_server() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

int page_server::port() const {
  const std::string text = address_of(listener_.get());
  return std::stoi(text.substr(text.rfind(':') + 1));
}

void page_server::serve() {
  for (;;) {
    const auto now = steady_clock::now();
    const bool accepts = now >= accepts_from_;
    auto wake = accepts ? now + patience : accepts_from_;
    if (!clients_.empty()) wake = std::min(wake, clients_.front().until);
    std::vector<pollfd> waits{{stop_.get(), POLLIN, 0},
                              {listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0}};
    for (const client& each : clients_)
      waits.push_back({each.socket.get(), static_cast<short>(each.answers ? POLLOUT : POLLIN), 0});
    const auto limit =
        std::chrono::ceil<milliseconds>(std::max(wake - now, steady_clock::duration::zero()));
    // It fails for lack of memory.
    if (poll(waits.data(), waits.size(), static_cast<int>(limit.count())) < 0) {
      std::this_thread::sleep_for(pause_after_shortage);
      continue;
    }
    if (waits[0].revents != 0) return;
    auto happened = waits.begin() + 2;
    const auto then = steady_clock::now();
    for (auto each = clients_.begin(); each != clients_.end(); ++happened) {
      const bool stays = (happened->revents == 0 || goes_on(*each)) && then < each->until;
      each = stays ? std::next(each) : clients_.erase(each);
    }
    if (waits[1].revents != 0 && accepts) accept_all();
  }
}

// Accepts at most `most_clients` at a time, so that connected clients continue in between.
void page_server::accept_all() {
  for (size_t count = 0; count < most_clients; ++count) {
    const int socket = accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (socket < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      // The connection waits, and the listener stays readable.
      if (!clients_.empty()) clients_.pop_front();
      accepts_from_ = steady_clock::now() + pause_after_shortage;
      return;
    }
    // Otherwise only this connection has failed.
    if (socket < 0) continue;
    if (clients_.size() == most_clients) clients_.pop_front();
    clients_.push_back({.socket = descriptor(socket),
                        .until = steady_clock::now() + patience,
                        .text = {},
                        .answers = false,
                        .sent = 0});
  }
}

// Continues with a client. Returns false if the connection is over.
bool page_server::goes_on(client& with) const {
  if (!with.answers && !read(with)) return false;
  if (!with.answers) return true;
  const ssize_t more = ::send(with.socket.get(), with.text.data() + with.sent,
                              with.text.size() - with.sent, MSG_NOSIGNAL);
  if (more < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  with.sent += static_cast<size_t>(more);
  if (with.sent < with.text.size()) return true;
  // Unread bytes behind the request would make the kernel discard the answer.
  std::array<char, 4096> rest;
  for (int count = 0; count < 16 && ::recv(with.socket.get(), rest.data(), rest.size(), 0) > 0;
       ++count) {
  }
  return false;
}

bool page_server::read(client& from) const {
  std::array<char, 4096> bytes;
  const ssize_t count = ::recv(from.socket.get(), bytes.data(), bytes.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (count == 0) return false;
  from.text.append(bytes.data(), static_cast<size_t>(count));
  if (from.text.find("\r\n\r\n") != from.text.npos)
    from.text = answer(from.text);
  else if (from.text.size() > longest_request)
    from.text = refusal("431 Request Header Fields Too Large");
  else
    return true;
  from.answers = true;
  return true;
}

std::string page_server::answer(const std::string& request) const {
  const std::string line = request.substr(0, request.find("\r\n"));
  const size_t method = line.find(' '), target = line.find(' ', method + 1);
  if (method == line.npos || target == line.npos || line.compare(target + 1, 7, "HTTP/1.") != 0)
    return refusal("400 Bad Request");
  if (line.compare(0, method, "GET") != 0) return refusal("405 Method Not Allowed");
  const std::string path = line.substr(method + 1, target - method - 1);
  if (path.substr(0, path.find('?')) != path_) return refusal("404 Not Found");
  return response("200 OK", "text/plain; version=0.0.4; charset=utf-8", page_());
}

}  // namespace gateway
