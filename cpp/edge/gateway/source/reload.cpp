#include "reload.hpp"

#include <filesystem>

#include <sys/eventfd.h>
#include <sys/inotify.h>

namespace gateway {

watcher::watcher() : inotify_(checked(inotify_init1(IN_CLOEXEC | IN_NONBLOCK), "watching files")) {}

void watcher::watch(const std::vector<std::string>& files) {
  for (const auto& [folder, names] : names_) inotify_rm_watch(inotify_.get(), folder);
  names_.clear();
  for (const std::filesystem::path file : files) {
    const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
    // The same folder gives the same number.
    const int number =
        inotify_add_watch(inotify_.get(), folder.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO);
    if (number >= 0) names_[number].insert(file.filename());
  }
}

bool watcher::changed() {
  bool found = false;
  alignas(inotify_event) char events[4096];
  for (ssize_t length; (length = ::read(inotify_.get(), events, sizeof(events))) > 0;)
    for (const char* at = events; at < events + length;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(at);
      const auto folder = names_.find(event->wd);
      // A lost event may have been for one of the files.
      found |= event->mask & IN_Q_OVERFLOW ||
               (folder != names_.end() && event->len > 0 && folder->second.contains(event->name));
      at += sizeof(inotify_event) + event->len;
    }
  return found;
}

loader::loader(std::string file)
    : file_(std::move(file)),
      done_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "waiting for a thread")) {}

loader::~loader() {
  if (thread_.joinable()) thread_.join();
}

void loader::request() {
  if (busy_)
    again_ = true;
  else
    start();
}

void loader::start() {
  busy_ = true;
  try {
    thread_ = std::thread([this] {
      try {
        outcome_ = load(file_);
      } catch (const std::exception& error) {
        outcome_ = std::string(error.what());
      }
      // Only now may the other thread read the outcome.
      eventfd_write(done_.get(), 1);
    });
  } catch (const std::system_error& error) {
    outcome_ = std::string("no thread reads the configuration: ") + error.what();
    eventfd_write(done_.get(), 1);
  }
}

loader::outcome loader::take() {
  eventfd_t count;
  eventfd_read(done_.get(), &count);
  if (thread_.joinable()) thread_.join();
  busy_ = false;
  outcome out = std::move(outcome_);
  if (std::exchange(again_, false)) start();
  return out;
}

}  // namespace gateway
