// Programs that a test starts, and folders for their files.
#pragma once

#include "descriptor.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace gateway::test {

// No wait of a test takes that long, however slow the machine is.
inline constexpr std::chrono::seconds patience{60};

class folder {
 public:
  folder() {
    std::string name = std::filesystem::temp_directory_path() / "corank-gateway-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for a test");
    path_ = name;
  }
  ~folder() { std::filesystem::remove_all(path_); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
  // Replaces the file as a careful editor does: a reader never sees a part of it.
  void replace(const std::string& name, const std::string& text) const {
    std::filesystem::rename(write(name + ".new", text), file(name));
  }

 private:
  std::filesystem::path path_;
};

// A program. Its standard output is read line by line, and its errors go to a file. It ends with
// the test.
class program {
 public:
  program(const std::vector<std::string>& command, const std::string& errors_file)
      : errors_(errors_file) {
    int ends[2];
    checked(pipe2(ends, O_CLOEXEC), "making a pipe");
    out_ = descriptor(ends[0]);
    const descriptor in(ends[1]);
    std::vector<char*> arguments;
    for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
    arguments.push_back(nullptr);
    const int errors =
        checked(open(errors_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
                "opening a file");
    pid_ = checked(fork(), "starting a program");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(in.get(), 1);
      dup2(errors, 2);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(errors);
  }
  ~program() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  void signal(int number) const { kill(pid_, number); }
  [[nodiscard]] pid_t pid() const { return pid_; }

  // Waits for the program's end. Returns its exit code, or 128 plus the number of the signal that
  // ended it.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Returns the next line. Throws if there is none.
  std::string line() {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      if (const size_t mark = rest_.find('\n'); mark != rest_.npos) {
        std::string found = rest_.substr(0, mark);
        rest_.erase(0, mark + 1);
        return found;
      }
      pollfd readable{.fd = out_.get(), .events = POLLIN, .revents = 0};
      if (std::chrono::steady_clock::now() > end)
        throw std::runtime_error("a line that was waited for did not come; " + said());
      if (poll(&readable, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t count = read(out_.get(), bytes, sizeof(bytes));
      if (count <= 0) throw std::runtime_error("the program has ended; " + said());
      rest_.append(bytes, static_cast<size_t>(count));
    }
  }

  // Returns the errors that the program has written.
  [[nodiscard]] std::string said() const {
    std::ifstream in(errors_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string errors_;
  descriptor out_;
  pid_t pid_ = -1;
  std::string rest_;
};

}  // namespace gateway::test
