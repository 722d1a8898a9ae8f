// Serves one page by HTTP, to any number of clients with any behaviour.
#pragma once

#include "descriptor.hpp"

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <thread>

namespace gateway {

// Answers `GET PATH` with a text, on its own thread. A slow or silent client delays no other.
//
// At most `most_clients` are connected at once. A further one replaces the oldest connection. Each
// client has `patience` to send its request and to read the answer, which ends the connection.
class page_server {
 public:
  static constexpr size_t most_clients = 64;
  static constexpr size_t longest_request = 8192;
  static constexpr std::chrono::seconds patience{10};

  // Listens at the address `listen`. `page` is called on the server's thread. Throws
  // std::runtime_error.
  page_server(const std::string& listen, std::string path, std::function<std::string()> page);
  ~page_server();
  page_server(const page_server&) = delete;
  page_server& operator=(const page_server&) = delete;

  // Returns the port, also if the requested one was 0.
  [[nodiscard]] int port() const;

 private:
  struct client {
    descriptor socket;
    std::chrono::steady_clock::time_point until;
    // The received part of the request; then the answer, whose rest begins at `sent`.
    std::string text;
    bool answers = false;
    size_t sent = 0;
  };

  void serve();
  void accept_all();
  [[nodiscard]] bool goes_on(client& with) const;
  [[nodiscard]] bool read(client& from) const;
  [[nodiscard]] std::string answer(const std::string& request) const;

  const std::string path_;
  const std::function<std::string()> page_;
  descriptor listener_, stop_;
  // The clients in order of their connection.
  std::list<client> clients_;
  // No connection is accepted before this time. It is set when descriptors or memory have run out.
  std::chrono::steady_clock::time_point accepts_from_{};
  std::thread thread_;
};

}  // namespace gateway
