// Publishing by MQTT: each sensor's last status is a retained message of its own topic. `TOPIC/state` says `online`, or `offline` once the gateway is gone, however it went.
#pragma once

#include "settings.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

struct mosquitto;

namespace gateway {

// Has a thread of its own, which connects again whenever the connection is lost. While there is none, only the last message of each topic is kept.
class mqtt_publisher {
 public:
  // Throws std::runtime_error where it can never work; that nobody answers yet is no error.
  explicit mqtt_publisher(const mqtt_settings& to);
  // Says `offline`, and sends what has not been sent if the broker takes it within two seconds.
  ~mqtt_publisher();
  mqtt_publisher(const mqtt_publisher&) = delete;
  mqtt_publisher& operator=(const mqtt_publisher&) = delete;

  // To `TOPIC/below`. From any thread; doesn't wait for the broker.
  void publish(const std::string& below, const std::string& message);

 private:
  void prepare();
  void stay_connected();
  void send(const std::string& below, const std::string& message);
  void connected();

  const mqtt_settings to_;
  mosquitto* client_;
  std::mutex mutex_;
  // All below belongs to the mutex.
  std::condition_variable stopped_;
  bool is_connected_ = false;
  bool stops_ = false;
  std::map<std::string, std::string> last_;
  std::thread thread_;
};

}  // namespace gateway
