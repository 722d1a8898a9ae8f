// The page for Prometheus.
#pragma once

#include "mqtt.hpp"
#include "page_server.hpp"
#include "roster.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <string>

namespace gateway {

// The service's state at one moment.
struct metrics_snapshot {
  totals counted;
  // Datagrams that the kernel has discarded.
  uint64_t dropped = 0;
  uint64_t reloads = 0;
  uint64_t refused_reloads = 0;
  // Reports that could not be written to the output.
  uint64_t unwritten = 0;
  mqtt_counts mqtt;

  // The durations of batches: `within[i]` counts the batches that took at most `bounds[i]` seconds.
  static constexpr std::array<double, 6> bounds{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  std::array<uint64_t, bounds.size()> within{};
  uint64_t batches = 0;
  double seconds = 0;

  void add_batch(double took);
};

// Answers GET /metrics on its own thread.
class metrics_server {
 public:
  // Listens at the address `listen`. Throws std::runtime_error.
  explicit metrics_server(const std::string& listen);
  metrics_server(const metrics_server&) = delete;
  metrics_server& operator=(const metrics_server&) = delete;

  void show(const metrics_snapshot& now);
  // Returns the port, also if the requested one was 0.
  [[nodiscard]] int port() const;

 private:
  [[nodiscard]] std::string page() const;

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  metrics_snapshot now_;
  // The last member: its thread uses the page until it is destroyed.
  std::unique_ptr<page_server> server_;
};

}  // namespace gateway
