// Publishes by MQTT: each sensor's last status is a retained message of its own topic.
// `TOPIC/state` says `online`, or `offline` after the gateway's end, whatever its reason.
#pragma once

#include "settings.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

struct mosquitto;

namespace gateway {

// The numbers of messages by their fate.
struct mqtt_counts {
  // Never sent, because a later one of the same topic came first, or because the library refused
  // it.
  uint64_t dropped = 0;
  // Topics whose last message waits to be sent.
  uint64_t waiting = 0;
  // Sent, and not acknowledged by the broker.
  uint64_t unacknowledged = 0;
};

// Publishes on its own thread, which reconnects after each loss of the connection.
//
// Memory is bounded for any behaviour of the broker: at most `most_unacknowledged` messages are
// sent and not acknowledged. Of each topic only the last message waits, first come, first sent. It
// is retained, so no subscriber needs a status that a later one has replaced.
class mqtt_publisher {
 public:
  static constexpr size_t most_unacknowledged = 64;

  // Starts the thread. Throws std::runtime_error if it can never work. A broker that does not
  // answer yet is no error.
  explicit mqtt_publisher(const mqtt_settings& to);
  // Publishes `offline`, and sends the waiting messages if the broker accepts them within two
  // seconds.
  ~mqtt_publisher();
  mqtt_publisher(const mqtt_publisher&) = delete;
  mqtt_publisher& operator=(const mqtt_publisher&) = delete;

  // Publishes to `TOPIC/below`. From any thread; does not wait for the broker.
  void publish(const std::string& below, const std::string& message);

  [[nodiscard]] mqtt_counts counts() const;

 private:
  struct topic {
    std::string last;
    bool waits = false;
  };
  using topics = std::map<std::string, topic>;

  void prepare();
  void stay_connected();
  bool stay_while_connected();
  void begin_anew();
  void wait_in_line(topics::iterator of);
  void send_what_may_be_sent();
  void connected();
  void acknowledged();
  void note(const char* line);

  const mqtt_settings to_;
  mosquitto* client_;
  // True if the broker has sent a message, although there is no subscription. It is not under the
  // mutex, because the library sets it under its own lock.
  std::atomic<bool> intrudes_ = false;
  mutable std::mutex mutex_;
  // The mutex guards all members below.
  std::condition_variable stopped_;
  bool is_connected_ = false;
  bool stops_ = false;
  topics topics_;
  // The topics whose last message waits, each at most once.
  std::deque<topics::iterator> line_;
  uint64_t unacknowledged_ = 0;
  uint64_t dropped_ = 0;
  std::thread thread_;
};

}  // namespace gateway
