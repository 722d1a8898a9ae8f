// Writes whole lines to a file that another program reads line by line, even while the disk is
// full.
#pragma once

#include "descriptor.hpp"

#include <string>

namespace gateway {

// An output of whole lines. It removes the part of a line whose rest could not be written. Where
// that is impossible (a pipe, or a file with other writers), the part becomes a line of its own:
// the next line begins after a line end.
class line_output {
 public:
  line_output() = default;
  // Appends to `file`; `-` is the standard output, and an empty name discards all lines. The file
  // may end with half a line, from a program that was killed. Throws std::system_error.
  explicit line_output(const std::string& file);

  // Writes one line and its end. Returns false if it could not be written and is lost.
  bool write(const std::string& line);

 private:
  bool take_back(size_t bytes);

  descriptor out_;
  // True if the last line that was written has no line end.
  bool torn_ = false;
};

}  // namespace gateway
