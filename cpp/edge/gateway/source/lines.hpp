// Writing whole lines: to a file that another program reads line by line, also while the disk is
// full.
#pragma once

#include "descriptor.hpp"

#include <string>

namespace gateway {

// What was written of a line whose rest could not be written is taken back. Where that is
// impossible (a pipe; a file that others write to as well), it becomes a line of its own: the next
// one begins after a line end.
class line_output {
 public:
  line_output() = default;
  // Appends to `file`; `-` is the standard output, and nothing is written if it is empty. What the
  // file ends with may be half a line, of a program that was killed. Throws std::system_error.
  explicit line_output(const std::string& file);

  // Writes one line, and its end. False: it could not be written, and is gone.
  bool write(const std::string& line);

 private:
  bool take_back(size_t bytes);

  descriptor out_;
  // What was written last has no line end.
  bool torn_ = false;
};

}  // namespace gateway
