// The gateway as a service: sockets, signals and files around a roster.
//
//   UDP ──▶ roster ──▶ reports ──▶ JSON lines, MQTT
//              ▲          └──────▶ Prometheus
//   SIGHUP, changed files ──▶ loader (another thread) ──▶ reload, or a message why not
//
// One thread waits for all of it. Only an output without a reader can block it.
#pragma once

#include "lines.hpp"
#include "marker.hpp"
#include "metrics.hpp"
#include "mqtt.hpp"
#include "reload.hpp"
#include "settings.hpp"
#include "udp.hpp"

#include <memory>
#include <optional>
#include <string>

namespace gateway {

class service {
 public:
  // Opens everything. Throws std::runtime_error. SIGTERM, SIGINT and SIGHUP must be blocked in the
  // calling thread before it starts others.
  service(std::string file, configuration with);
  ~service();

  // Serves until SIGTERM or SIGINT.
  void run();

 private:
  void receive();
  void report_all(const std::vector<report>& reports);
  void handle_signal();
  void handle_reload();
  void refuse(const std::string& why);
  void use_output();
  void set_timer();
  void say(const std::string& line);
  void show_metrics();
  void stop();

  const std::string file_;
  configuration with_;
  roster roster_;
  udp_receiver socket_;
  descriptor signals_, timer_, epoll_;
  line_output output_;
  watcher watcher_;
  loader loader_;
  std::optional<metrics_server> metrics_;
  std::optional<mqtt_publisher> mqtt_;
  std::optional<marker> marker_;
  metrics_snapshot snapshot_;
  bool stops_ = false;
};

}  // namespace gateway
