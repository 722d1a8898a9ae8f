#include "metrics.hpp"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <stdexcept>

namespace gateway {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric counter(uint64_t value, const char* label = nullptr, std::string_view is = {}) {
  ClientMetric made;
  made.counter.value = static_cast<double>(value);
  if (label != nullptr) made.label.push_back({label, std::string(is)});
  return made;
}

ClientMetric gauge(uint64_t value, const char* label = nullptr, std::string_view is = {}) {
  ClientMetric made = counter(0, label, is);
  made.gauge.value = static_cast<double>(value);
  return made;
}

ClientMetric histogram(const metrics_snapshot& of) {
  ClientMetric made;
  made.histogram.sample_count = of.batches;
  made.histogram.sample_sum = of.seconds;
  for (size_t at = 0; at < of.bounds.size(); ++at)
    made.histogram.bucket.push_back({of.within[at], of.bounds[at]});
  made.histogram.bucket.push_back({of.batches, std::numeric_limits<double>::infinity()});
  return made;
}

std::vector<MetricFamily> families(const metrics_snapshot& of) {
  const totals& counted = of.counted;
  std::vector<ClientMetric> datagrams, sensors;
  for (size_t at = 0; at < fates; ++at)
    datagrams.push_back(counter(counted.datagrams[at], "fate", name_of(static_cast<fate>(at))));
  for (size_t at = 0; at < conditions; ++at)
    sensors.push_back(gauge(counted.sensors[at], "status", name_of(static_cast<condition>(at))));
  return {
      {"corank_gateway_datagrams_total", "Datagrams that came, by what became of them.",
       MetricType::Counter, datagrams},
      {"corank_gateway_lost_total",
       "Datagrams that never came, by their sequence numbers.",
       MetricType::Counter,
       {counter(counted.lost)}},
      {"corank_gateway_missing",
       "Datagrams that have not come, and may still come late.",
       MetricType::Gauge,
       {gauge(counted.missing)}},
      {"corank_gateway_dropped_total",
       "Datagrams that the kernel threw away because the receive buffer was full.",
       MetricType::Counter,
       {counter(of.dropped)}},
      {"corank_gateway_measurements_total",
       "Measurements that were judged.",
       MetricType::Counter,
       {counter(counted.measurements)}},
      {"corank_gateway_damaged_total",
       "Measurements that were judged as those of a damaged bearing.",
       MetricType::Counter,
       {counter(counted.damaged)}},
      {"corank_gateway_sensors", "Sensors, by their last status.", MetricType::Gauge, sensors},
      {"corank_gateway_reloads_total",
       "Reloads of configuration and weights.",
       MetricType::Counter,
       {counter(of.reloads, "result", "done"), counter(of.refused_reloads, "result", "refused")}},
      {"corank_gateway_unwritten_total",
       "Reports that could not be written to the output.",
       MetricType::Counter,
       {counter(of.unwritten)}},
      {"corank_gateway_mqtt_dropped_total",
       "Messages that were not sent by MQTT, because a later one of the same topic came before the "
       "broker took them.",
       MetricType::Counter,
       {counter(of.mqtt.dropped)}},
      {"corank_gateway_mqtt_waiting",
       "Topics whose last message waits to be sent by MQTT.",
       MetricType::Gauge,
       {gauge(of.mqtt.waiting)}},
      {"corank_gateway_mqtt_unacknowledged",
       "Messages that the MQTT broker has not acknowledged.",
       MetricType::Gauge,
       {gauge(of.mqtt.unacknowledged)}},
      {"corank_gateway_batch_seconds",
       "How long it took to judge the windows that were full.",
       MetricType::Histogram,
       {histogram(of)}},
  };
}

}  // namespace

void metrics_snapshot::add_batch(double took) {
  for (size_t at = 0; at < bounds.size(); ++at) within[at] += took <= bounds[at];
  ++batches;
  seconds += took;
}

metrics_server::metrics_server(const std::string& listen) {
  try {
    server_ = std::make_unique<page_server>(listen, "/metrics", [this] { return page(); });
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("metrics can't be served at ") + error.what());
  }
}

void metrics_server::show(const metrics_snapshot& now) {
  const std::lock_guard lock(mutex_);
  now_ = now;
}

std::string metrics_server::page() const {
  metrics_snapshot now;
  {
    const std::lock_guard lock(mutex_);
    now = now_;
  }
  return prometheus::TextSerializer().Serialize(families(now));
}

int metrics_server::port() const { return server_->port(); }

}  // namespace gateway
