#include "settings.hpp"

#include <toml++/toml.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <utility>

namespace gateway {
namespace {

// One table of the file. Each entry is taken once, and an entry that is left at the end is an
// error.
class section {
 public:
  section(toml::table entries, std::string name)
      : entries_(std::move(entries)), name_(std::move(name)) {}

  std::string text(const char* entry, std::string otherwise) {
    return take<std::string>(entry, std::move(otherwise), "a text");
  }

  uint64_t number(const char* entry, uint64_t otherwise, uint64_t least, uint64_t most) {
    const std::string where = line_of(entry);
    const auto found = take<int64_t>(entry, static_cast<int64_t>(otherwise), "a whole number");
    if (std::cmp_less(found, least) || std::cmp_greater(found, most))
      throw std::runtime_error(where + full(entry) + " must be from " + std::to_string(least) +
                               " to " + std::to_string(most) + ", not " + std::to_string(found));
    return static_cast<uint64_t>(found);
  }

  // Takes HOST:PORT, or an empty text if that is the default. The port must be valid: a system's
  // resolver may cut off excess digits.
  std::string address(const char* entry, std::string otherwise) {
    const std::string where = line_of(entry);
    const bool may_be_empty = otherwise.empty();
    std::string found = text(entry, std::move(otherwise));
    if (found.empty() && may_be_empty) return found;
    const size_t mark = found.rfind(':');
    uint16_t port = 0;
    const char* const end = found.data() + found.size();
    const char* const begin = mark == found.npos ? end : found.data() + mark + 1;
    if (const auto read = std::from_chars(begin, end, port);
        begin == end || read.ec != std::errc() || read.ptr != end)
      throw std::runtime_error(where + full(entry) +
                               " must be HOST:PORT with a port from 0 to 65535, not `" + found +
                               "`");
    return found;
  }

  std::optional<section> part(const char* entry) {
    const toml::node* const found = entries_.get(entry);
    if (found == nullptr) return std::nullopt;
    if (!found->is_table())
      throw std::runtime_error(line_of(entry) + full(entry) + " must be a table: [" + entry + "]");
    section made(*found->as_table(), entry);
    entries_.erase(entry);
    return made;
  }

  void end() const {
    for (const auto& [entry, value] : entries_)
      throw std::runtime_error(line_of(value) + "there is no entry " +
                               full(std::string(entry.str()).c_str()) +
                               "; see `corank-gateway --help`");
  }

 private:
  static std::string line_of(const toml::node& value) {
    std::string made("line ");
    return made.append(std::to_string(value.source().begin.line)).append(": ");
  }
  [[nodiscard]] std::string line_of(const char* entry) const {
    const toml::node* const found = entries_.get(entry);
    return found == nullptr ? "" : line_of(*found);
  }
  [[nodiscard]] std::string full(const char* entry) const {
    std::string made("`");
    if (!name_.empty()) made.append(name_).append(".");
    return made.append(entry).append("`");
  }

  template <class T>
  T take(const char* entry, T otherwise, const char* kind) {
    const toml::node* const found = entries_.get(entry);
    if (found == nullptr) return otherwise;
    const std::optional<T> value = found->value_exact<T>();
    if (!value) throw std::runtime_error(line_of(entry) + full(entry) + " must be " + kind);
    entries_.erase(entry);
    return *value;
  }

  toml::table entries_;
  std::string name_;
};

settings read_settings(section file) {
  settings read;
  read.listen = file.address("listen", read.listen);
  read.receive_buffer = file.number("receive_buffer", read.receive_buffer, 4096, 1 << 30);
  read.key_file = file.text("key_file", "");
  read.weights = file.text("weights", "");
  read.output = file.text("output", read.output);
  read.metrics = file.address("metrics", "");
  read.by.by = model_of_name(file.text("model", std::string(name_of(read.by.by))));
  read.by.window = file.number("window", read.by.window, 1, 10000);
  read.by.alarm_after = file.number("alarm_after", read.by.alarm_after, 1, 10000);
  read.by.silent_after = std::chrono::milliseconds(file.number(
      "silent_after_ms", static_cast<uint64_t>(read.by.silent_after.count()), 10, 1'000'000'000));
  read.by.session_ahead = std::chrono::milliseconds(
      file.number("session_ahead_ms", static_cast<uint64_t>(read.by.session_ahead.count()), 0,
                  4'000'000'000'000));
  if (std::optional<section> mqtt = file.part("mqtt")) {
    mqtt_settings& to = read.mqtt.emplace();
    to.host = mqtt->text("host", to.host);
    to.port = static_cast<uint16_t>(mqtt->number("port", to.port, 1, 65535));
    to.topic = mqtt->text("topic", to.topic);
    to.user = mqtt->text("user", "");
    to.password_file = mqtt->text("password_file", "");
    to.ca_file = mqtt->text("ca_file", "");
    mqtt->end();
  }
  if (std::optional<section> gpio = file.part("gpio")) {
    read.gpio.emplace();
    read.gpio->chip = gpio->text("chip", "/dev/gpiochip0");
    read.gpio->line = static_cast<uint32_t>(gpio->number("line", 0, 0, 65535));
    gpio->end();
  }
  file.end();
  if (read.key_file.empty())
    throw std::runtime_error(
        "`key_file` is missing: a file with the key that the sensors' keys are derived from");
  if (read.weights.empty())
    throw std::runtime_error("`weights` is missing: the file that the training wrote");
  if (read.by.alarm_after > read.by.window)
    throw std::runtime_error(
        "`alarm_after` is greater than `window`: no window could ever be damaged");
  return read;
}

// Makes `name` relative to the folder of `file`.
void make_relative(std::string& name, const std::string& file) {
  if (!name.empty() && name != "-") name = std::filesystem::path(file).parent_path() / name;
}

}  // namespace

configuration load(const std::string& file) {
  configuration made;
  try {
    std::ifstream in(file);
    if (!in) throw std::runtime_error("the configuration can't be read");
    made.chosen = read_settings(section(toml::parse(in, file), ""));
  } catch (const toml::parse_error& error) {
    throw std::runtime_error(file + ":" + std::to_string(error.source().begin.line) + ": " +
                             std::string(error.description()));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
  settings& chosen = made.chosen;
  for (std::string* const name : {&chosen.key_file, &chosen.weights, &chosen.output})
    make_relative(*name, file);
  if (chosen.mqtt) {
    make_relative(chosen.mqtt->password_file, file);
    make_relative(chosen.mqtt->ca_file, file);
  }
  made.secret = read_key(chosen.key_file);
  made.table = std::make_shared<const sensor_table>(sensor_table::read(chosen.weights));
  return made;
}

std::vector<std::string> files_of(const std::string& file, const settings& chosen) {
  return {file, chosen.key_file, chosen.weights};
}

std::string needs_restart(const settings& now, const settings& wanted) {
  if (now.listen != wanted.listen) return "listen";
  if (now.receive_buffer != wanted.receive_buffer) return "receive_buffer";
  if (now.metrics != wanted.metrics) return "metrics";
  if (now.mqtt != wanted.mqtt) return "mqtt";
  if (now.gpio != wanted.gpio) return "gpio";
  return "";
}

}  // namespace gateway
