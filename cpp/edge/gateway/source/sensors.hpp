// The simulated sensors of one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gateway {

// The command line of `corank-sensor`; its help explains each option.
struct sensor_options {
  std::string to = "127.0.0.1:9477";
  std::string key_file;
  uint32_t first = 1;
  uint32_t sensors = 1;
  size_t features = 256;
  uint64_t count = 0;
  double rate = 0;
  std::string condition = "sound";
  std::vector<std::string> faults;
  uint64_t seed = 1;
  bool dataset = false;
};

// Sends until each sensor has sent `count` spectra, or forever if that is 0. Then prints a summary
// as JSON. Throws std::runtime_error.
void send(const sensor_options& chosen);

// Prints spectra for training and for tests, one a line: sensor, condition, bins. Throws
// std::runtime_error.
void print_dataset(const sensor_options& chosen);

}  // namespace gateway
