#include "mqtt.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <mosquitto.h>

namespace gateway {
namespace {

constexpr int at_least_once = 1, keep_alive_seconds = 30;

void must(int result, const std::string& doing) {
  if (result != MOSQ_ERR_SUCCESS) throw std::runtime_error("MQTT: " + doing + ": " + mosquitto_strerror(result));
}

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) throw std::runtime_error(file + ": the password for MQTT can't be read");
  return line;
}

}  // namespace

mqtt_publisher::mqtt_publisher(const mqtt_settings& to) : to_(to), client_(nullptr) {
  mosquitto_lib_init();
  client_ = mosquitto_new(nullptr, true, this);
  if (client_ == nullptr) throw std::runtime_error("MQTT: no memory for a client");
  try {
    prepare();
    thread_ = std::thread([this] { stay_connected(); });
  } catch (...) {
    mosquitto_destroy(client_);
    mosquitto_lib_cleanup();
    throw;
  }
}

void mqtt_publisher::prepare() {
  const std::string state = to_.topic + "/state";
  must(mosquitto_pub_topic_check(state.c_str()), "`" + to_.topic + "` is no topic to publish to");
  must(mosquitto_will_set(client_, state.c_str(), 7, "offline", at_least_once, true), "setting the last will");
  if (!to_.user.empty())
    must(mosquitto_username_pw_set(client_, to_.user.c_str(), to_.password_file.empty() ? nullptr : first_line(to_.password_file).c_str()), "setting the user");
  if (!to_.ca_file.empty()) must(mosquitto_tls_set(client_, to_.ca_file.c_str(), nullptr, nullptr, nullptr, nullptr), to_.ca_file);
  must(mosquitto_threaded_set(client_, true), "publishing from another thread");
  mosquitto_connect_callback_set(client_, [](mosquitto*, void* self, int refused) {
    if (refused == 0) static_cast<mqtt_publisher*>(self)->connected();
    else std::fprintf(stderr, "corank-gateway: MQTT: the broker refuses the connection: %s\n", mosquitto_connack_string(refused));
  });
}

// The library's own thread gives up if nobody answers at first.
void mqtt_publisher::stay_connected() {
  constexpr std::chrono::seconds first_pause{1}, longest_pause{30};
  std::chrono::seconds pause = first_pause;
  std::unique_lock lock(mutex_);
  while (!stops_) {
    lock.unlock();
    int result = mosquitto_connect_async(client_, to_.host.c_str(), to_.port, keep_alive_seconds);
    std::chrono::steady_clock::time_point end{};
    while (result == MOSQ_ERR_SUCCESS) {
      result = mosquitto_loop(client_, 100, 1);
      lock.lock();
      if (is_connected_) pause = first_pause;
      const auto now = std::chrono::steady_clock::now();
      if (stops_ && end == std::chrono::steady_clock::time_point{}) end = now + std::chrono::seconds(2);
      const bool gives_up = stops_ && (!is_connected_ || now > end);
      lock.unlock();
      if (gives_up) break;
    }
    lock.lock();
    is_connected_ = false;
    stopped_.wait_for(lock, pause, [this] { return stops_; });
    pause = std::min(2 * pause, longest_pause);
  }
}

mqtt_publisher::~mqtt_publisher() {
  publish("state", "offline");
  mosquitto_disconnect(client_);
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stopped_.notify_one();
  thread_.join();
  mosquitto_destroy(client_);
  mosquitto_lib_cleanup();
}

void mqtt_publisher::publish(const std::string& below, const std::string& message) {
  const std::lock_guard lock(mutex_);
  last_[below] = message;
  if (is_connected_) send(below, message);
}

void mqtt_publisher::send(const std::string& below, const std::string& message) {
  mosquitto_publish(client_, nullptr, (to_.topic + "/" + below).c_str(), static_cast<int>(message.size()), message.data(), at_least_once, true);
}

void mqtt_publisher::connected() {
  const std::lock_guard lock(mutex_);
  is_connected_ = true;
  last_["state"] = "online";
  for (const auto& [below, message] : last_) send(below, message);
}

}  // namespace gateway
