#include "mqtt.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include <mosquitto.h>

namespace gateway {
namespace {

constexpr int at_least_once = 1, keep_alive_seconds = 30;

void must(int result, const std::string& doing) {
  if (result != MOSQ_ERR_SUCCESS)
    throw std::runtime_error("MQTT: " + doing + ": " + mosquitto_strerror(result));
}

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line))
    throw std::runtime_error(file + ": the password for MQTT can't be read");
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
  must(mosquitto_will_set(client_, state.c_str(), 7, "offline", at_least_once, true),
       "setting the last will");
  if (!to_.user.empty())
    must(mosquitto_username_pw_set(
             client_, to_.user.c_str(),
             to_.password_file.empty() ? nullptr : first_line(to_.password_file).c_str()),
         "setting the user");
  if (!to_.ca_file.empty())
    must(mosquitto_tls_set(client_, to_.ca_file.c_str(), nullptr, nullptr, nullptr, nullptr),
         to_.ca_file);
  must(mosquitto_threaded_set(client_, true), "publishing from another thread");
  mosquitto_connect_callback_set(client_, [](mosquitto*, void* self, int refused) {
    if (refused == 0)
      static_cast<mqtt_publisher*>(self)->connected();
    else
      std::fprintf(stderr, "corank-gateway: MQTT: the broker refuses the connection: %s\n",
                   mosquitto_connack_string(refused));
  });
  mosquitto_publish_callback_set(client_, [](mosquitto*, void* self, int) {
    static_cast<mqtt_publisher*>(self)->acknowledged();
  });
  mosquitto_log_callback_set(client_, [](mosquitto*, void* self, int, const char* line) {
    static_cast<mqtt_publisher*>(self)->note(line);
  });
  mosquitto_max_inflight_messages_set(client_, static_cast<unsigned>(most_unacknowledged));
}

// Connects again and again. The library's own thread gives up if the first connection fails.
void mqtt_publisher::stay_connected() {
  constexpr std::chrono::seconds first_pause{1}, longest_pause{30};
  std::chrono::seconds pause = first_pause;
  std::unique_lock lock(mutex_);
  while (!stops_) {
    lock.unlock();
    const bool tries = mosquitto_connect_async(client_, to_.host.c_str(), to_.port,
                                               keep_alive_seconds) == MOSQ_ERR_SUCCESS;
    if (tries && stay_while_connected()) pause = first_pause;
    lock.lock();
    is_connected_ = false;
    if (intrudes_) begin_anew();
    stopped_.wait_for(lock, pause, [this] { return stops_; });
    pause = std::min(2 * pause, longest_pause);
  }
}

// Runs the connection until it is lost or, at the end, until no message is left. Returns whether
// there was a connection.
bool mqtt_publisher::stay_while_connected() {
  constexpr std::chrono::seconds farewell{2};
  std::chrono::steady_clock::time_point end{};
  bool was_connected = false, says_goodbye = false;
  while (mosquitto_loop(client_, 100, 1) == MOSQ_ERR_SUCCESS && !intrudes_) {
    const std::lock_guard lock(mutex_);
    was_connected |= is_connected_;
    const auto now = std::chrono::steady_clock::now();
    if (stops_ && end == std::chrono::steady_clock::time_point{}) end = now + farewell;
    if (stops_ && (!is_connected_ || now > end)) break;
    if (stops_ && !says_goodbye && line_.empty() && unacknowledged_ == 0) {
      says_goodbye = true;
      mosquitto_disconnect(client_);
    }
  }
  return was_connected;
}

// Resets the library, which keeps the messages of the broker. All topics are sent again at the next
// connection.
void mqtt_publisher::begin_anew() {
  std::fprintf(stderr,
               "corank-gateway: MQTT: the broker sends messages, and the gateway has subscribed to "
               "none; the connection is closed\n");
  intrudes_ = false;
  unacknowledged_ = 0;
  mosquitto_reinitialise(client_, nullptr, true, this);
  try {
    prepare();
  } catch (const std::exception& error) {
    // For example, a password file no longer exists. The broker will refuse the connection.
    std::fprintf(stderr, "corank-gateway: %s\n", error.what());
  }
}

mqtt_publisher::~mqtt_publisher() {
  publish("state", "offline");
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
  const auto of = topics_.try_emplace(below).first;
  of->second.last = message;
  if (of->second.waits)
    ++dropped_;
  else
    wait_in_line(of);
  send_what_may_be_sent();
}

void mqtt_publisher::wait_in_line(topics::iterator of) {
  of->second.waits = true;
  line_.push_back(of);
}

void mqtt_publisher::send_what_may_be_sent() {
  while (is_connected_ && !line_.empty() && unacknowledged_ < most_unacknowledged) {
    auto& [below, of] = *line_.front();
    line_.pop_front();
    of.waits = false;
    const int result =
        mosquitto_publish(client_, nullptr, (to_.topic + "/" + below).c_str(),
                          static_cast<int>(of.last.size()), of.last.data(), at_least_once, true);
    if (result == MOSQ_ERR_SUCCESS)
      ++unacknowledged_;
    else
      ++dropped_;
  }
}

// Sends all topics again. The library repeats the unacknowledged messages before those that are
// sent from now on, so the last message stays the last.
void mqtt_publisher::connected() {
  const std::lock_guard lock(mutex_);
  is_connected_ = true;
  if (!stops_) topics_["state"].last = "online";
  for (auto of = topics_.begin(); of != topics_.end(); ++of)
    if (!of->second.waits) wait_in_line(of);
  send_what_may_be_sent();
}

void mqtt_publisher::acknowledged() {
  const std::lock_guard lock(mutex_);
  if (unacknowledged_ > 0) --unacknowledged_;
  send_what_may_be_sent();
}

// Detects messages from the broker by the library's log: "Client NAME received PUBLISH (…". A
// broker that sends messages to a client without subscriptions could fill the memory. The library
// keeps those of the highest quality until the broker releases them, and reports their arrival only
// in its log.
void mqtt_publisher::note(const char* line) {
  const std::string_view said = line;
  const size_t name = said.find(' '), verb = said.find(' ', name + 1);
  if (name != said.npos && verb != said.npos &&
      said.substr(verb + 1).starts_with("received PUBLISH "))
    intrudes_ = true;
}

mqtt_counts mqtt_publisher::counts() const {
  const std::lock_guard lock(mutex_);
  return {.dropped = dropped_, .waiting = line_.size(), .unacknowledged = unacknowledged_};
}

}  // namespace gateway
