// Detects changes of files, and reads the files on another thread.
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

// Watches files that are written to or replaced. It watches their folders, because a replacement is
// another file.
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

  // Requests a load. If one is in progress, its files may have been read before they changed, so
  // the configuration is loaded once more.
  void request();
  // Returns a descriptor that is readable when there is an outcome to take.
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
