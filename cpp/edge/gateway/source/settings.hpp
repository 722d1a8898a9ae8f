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
  // Topics begin with this.
  std::string topic = "corank/gateway";
  std::string user;
  std::string password_file;
  // With one the connection is by TLS.
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
  // Where JSON lines go: a file, to whose end they are written; `-`: the standard output; empty:
  // nowhere.
  std::string output = "-";
  rules by;
  std::optional<mqtt_settings> mqtt;
  // HOST:PORT for scrapes by Prometheus; empty: none.
  std::string metrics;
  std::optional<gpio_settings> gpio;
};

// All that a reload replaces, whole or not at all.
struct configuration {
  settings chosen;
  key secret;
  std::shared_ptr<const sensor_table> table;
};

// Reads the settings, the key and the weights that they name. Names of files are relative to the
// configuration's folder. Throws std::runtime_error that says which file is wrong, where, and what
// is right.
configuration load(const std::string& file);

// The files of which `load` makes a configuration.
std::vector<std::string> files_of(const std::string& file, const settings& chosen);

// The first entry that differs and holds until the service is restarted; empty if there is none.
std::string needs_restart(const settings& now, const settings& wanted);

}  // namespace gateway
