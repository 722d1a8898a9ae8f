// Noticing that files have changed, and reading them beside the service's own work.
#pragma once

#include "descriptor.hpp"
#include "settings.hpp"

#include <map>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace gateway {

// Files that are written to, or replaced by others: the folders that they are in are watched, since
// a replaced file is another one.
class watcher {
 public:
  watcher();
  // Watches these files and no others. Folders that cannot be watched are left out; a signal then
  // starts the reload.
  void watch(const std::vector<std::string>& files);

  [[nodiscard]] int fd() const { return inotify_.get(); }
  // Tests whether one of the files has changed since the last call.
  bool changed();

 private:
  descriptor inotify_;
  std::map<int, std::set<std::string>> names_;
};

// Loads configurations on its own thread, one at a time, so that datagrams are received meanwhile.
class loader {
 public:
  // The outcome: the configuration, or the reason for its lack.
  using outcome = std::variant<configuration, std::string>;

  explicit loader(std::string file);
  ~loader();
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  // If one is being loaded, its files may have been read before they changed: then it is loaded
  // once more.
  void request();
  // Readable when there is an outcome to take.
  [[nodiscard]] int fd() const { return done_.get(); }
  outcome take();

 private:
  void start();

  std::string file_;
  descriptor done_;
  bool busy_ = false, again_ = false;
  outcome outcome_;
  std::thread thread_;
};

}  // namespace gateway
