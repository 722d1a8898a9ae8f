#include "lines.hpp"

#include <fcntl.h>
#include <sys/stat.h>

namespace gateway {
namespace {

// Tests whether a file ends within a line. A file that cannot be read counts as complete.
bool ends_within_line(const char* file) {
  struct stat is{};
  if (::stat(file, &is) != 0 || !S_ISREG(is.st_mode) || is.st_size == 0) return false;
  const descriptor in(::open(file, O_RDONLY | O_CLOEXEC));
  char last = '\n';
  return in.get() >= 0 && ::pread(in.get(), &last, 1, is.st_size - 1) == 1 && last != '\n';
}

}  // namespace

line_output::line_output(const std::string& file) {
  if (file.empty()) return;
  if (file == "-") {
    out_ = descriptor(
        checked(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), "writing to the standard output"));
  } else {
    out_ = descriptor(checked(::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644),
                              file.c_str()));
    torn_ = ends_within_line(file.c_str());
  }
}

bool line_output::write(const std::string& line) {
  if (out_.get() < 0) return true;
  const std::string text = (torn_ ? "\n" : "") + line + '\n';
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t more = ::write(out_.get(), text.data() + written, text.size() - written);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    written += static_cast<size_t>(more);
  }
  if (written == text.size()) {
    torn_ = false;
    return true;
  }
  // If only a line end was written, it ends the line that was torn before.
  if (written > 0 && !take_back(written)) torn_ = !(torn_ && written == 1);
  return false;
}

// Removes the last bytes that were written. Returns false if it cannot.
bool line_output::take_back(size_t bytes) {
  struct stat is{};
  const off_t end = ::lseek(out_.get(), 0, SEEK_CUR);
  if (end < static_cast<off_t>(bytes) || ::fstat(out_.get(), &is) != 0 || !S_ISREG(is.st_mode) ||
      is.st_size != end)
    return false;
  return ::ftruncate(out_.get(), end - static_cast<off_t>(bytes)) == 0;
}

}  // namespace gateway
