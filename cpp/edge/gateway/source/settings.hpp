// The settings of the service, from its configuration file in TOML. docs/gateway.md explains each
// entry, and example/gateway.toml has all of them.
#pragma once

#include "roster.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gateway {

struct mqtt_settings {
  std::string host = "127.0.0.1";
  uint16_t port = 1883;
  // The prefix of all topics.
  std::string topic = "corank/gateway";
  std::string user;
  std::string password_file;
  // With a file, the connection uses TLS.
  std::string ca_file;

  bool operator==(const mqtt_settings&) const = default;
};

// A line that is high while windows are classified, for an external meter (thesis, section 5.3.6).
struct gpio_settings {
  std::string chip;
  uint32_t line = 0;

  bool operator==(const gpio_settings&) const = default;
};

struct settings {
  std::string listen = "0.0.0.0:9477";
  size_t receive_buffer = 16 << 20;
  std::string key_file;
  std::string weights;
  // The output of JSON lines: a file to which they are appended, `-` for the standard output, or
  // empty for none.
  std::string output = "-";
  rules by;
  std::optional<mqtt_settings> mqtt;
  // HOST:PORT for scrapes by Prometheus, or empty for none.
  std::string metrics;
  std::optional<gpio_settings> gpio;
};

// The state that a reload replaces, as a whole or not at all.
struct configuration {
  settings chosen;
  key secret;
  std::shared_ptr<const sensor_table> table;
};

// Reads the settings, the key and the weights that they name. Names of files are relative to the
// configuration's folder. Throws std::runtime_error, which names the file, the place of the error,
// and what is right.
configuration load(const std::string& file);

// Returns the files from which `load` makes a configuration.
std::vector<std::string> files_of(const std::string& file, const settings& chosen);

// Returns the first entry that differs and needs a restart of the service, or an empty text if
// there is none.
std::string needs_restart(const settings& now, const settings& wanted);

}  // namespace gateway
