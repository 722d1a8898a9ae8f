// The programs themselves, on this machine's own network: faulty sensors, files that change, a
// broker that starts late.
#include "program.hpp"
#include "table.hpp"

#include <gtest/gtest.h>
#include <mosquitto.h>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <map>
#include <sstream>

using namespace gateway;
using gateway::test::folder;
using gateway::test::program;
using nlohmann::json;

namespace {

const std::string gateway_program = CORANK_GATEWAY, sensor_program = CORANK_SENSOR,
                  broker_program = "/usr/sbin/mosquitto";

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

sockaddr_in local(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Returns the body of the answer.
std::string http_get(int port, const std::string& path) {
  const descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in address = local(port);
  checked(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
          "connecting");
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  checked(write(socket.get(), request.data(), request.size()), "asking");
  std::string answer;
  char bytes[4096];
  for (ssize_t count; (count = read(socket.get(), bytes, sizeof(bytes))) > 0;)
    answer.append(bytes, static_cast<size_t>(count));
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

// Returns a port that is free now.
int free_port() {
  const descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = local(0);
  socklen_t length = sizeof(address);
  checked(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length),
          "asking for a port");
  checked(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length),
          "asking for a port");
  return ntohs(address.sin_port);
}

// A gateway with files of its own.
class System : public testing::Test {
 protected:
  System() {
    files.write("gateway.key", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
    std::filesystem::copy_file(CORANK_WEIGHTS, files.file("weights.json"));
  }

  // Returns a configuration of the entries that every test needs, and then `entries`.
  static std::string configuration(const std::string& entries) {
    return "listen = \"127.0.0.1:0\"\nkey_file = \"gateway.key\"\nweights = "
           "\"weights.json\"\nsilent_after_ms = 600000\n" +
           entries;
  }

  // Starts the gateway. Returns once it is ready.
  void start(const std::string& entries) {
    files.write("gateway.toml", configuration(entries));
    gateway.emplace(
        std::vector<std::string>{gateway_program, "--config", files.file("gateway.toml")},
        files.file("errors"));
    started = event("started");
  }

  // Returns the next event of this kind, and skips others.
  json event(const std::string& kind) {
    for (;;) {
      json found = json::parse(gateway->line());
      if (found.at("event") == kind) return found;
    }
  }

  // Runs sensors to their end. Returns their summary.
  json sense(std::vector<std::string> options) {
    std::vector<std::string> command{sensor_program, "--to", started.at("listen"), "--key",
                                     files.file("gateway.key")};
    command.insert(command.end(), options.begin(), options.end());
    program sensors(command, files.file("sensors"));
    json summary = json::parse(sensors.line());
    EXPECT_EQ(sensors.wait(), 0) << sensors.said();
    return summary;
  }

  // Ends the gateway. Returns its counts.
  json stop() {
    gateway->signal(SIGTERM);
    json counts = event("stopped").at("datagrams");
    EXPECT_EQ(gateway->wait(), 0) << gateway->said();
    return counts;
  }

  // Returns the weights with other thresholds, by which every spectrum is damaged, or none.
  std::string weights_that_find(bool all_damaged) {
    json document = json::parse(text_of(CORANK_WEIGHTS));
    for (json& each : document["sensors"])
      each["threshold"] =
          all_damaged ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max();
    return document.dump();
  }

  // Runs a gateway that cannot start. Returns its error.
  std::string error_of(const std::string& entries, const std::vector<std::string>& options = {}) {
    files.write("gateway.toml", entries);
    std::vector<std::string> command{gateway_program, files.file("gateway.toml")};
    command.insert(command.end(), options.begin(), options.end());
    std::filesystem::remove(files.file("errors"));
    program failing(command, files.file("errors"));
    EXPECT_EQ(failing.wait(), 1);
    return failing.said();
  }

  folder files;
  std::optional<program> gateway;
  json started;
};

}  // namespace

TEST_F(System, SoundAndDamagedBearingsAreToldApart) {
  start("alarm_after = 5\n");
  EXPECT_EQ(started.at("sensors"), 50);
  for (const std::string condition : {"sound", "outer", "inner"}) {
    sense({"--sensors", "50", "--count", "10", "--rate", "500", "--condition", condition, "--seed",
           "4711"});
    int right = 0;
    for (int each = 0; each < 50; ++each)
      right += event("status").at("status") == (condition == "sound" ? "sound" : "damaged");
    EXPECT_GE(right, 49) << condition;
  }
  stop();
}

TEST_F(System, EveryFaultIsCountedAndHarmless) {
  start("");
  // The last spectra have no fault: 157 is no multiple of any period, and no datagram is held back.
  const json sensors = sense({"--sensors", "5", "--count", "157", "--rate", "2000", "--fault",
                              "lost=7", "--fault", "late=5", "--fault", "duplicated=11", "--fault",
                              "truncated=13", "--fault", "oversized=17", "--fault", "forged=3"});
  for (const char* kind : {"lost", "late", "duplicated", "truncated", "oversized", "forged"})
    EXPECT_GT(sensors.at(kind), 0) << kind;
  const json counts = stop();
  for (const char* kind : {"late", "duplicated", "truncated", "oversized", "forged"})
    EXPECT_EQ(counts.at(kind), sensors.at(kind)) << kind;
  const auto number = [](const json& of, const char* name) { return of.at(name).get<int>(); };
  EXPECT_EQ(number(counts, "lost") + number(counts, "missing"),
            number(sensors, "lost") + number(sensors, "truncated") + number(sensors, "oversized"));
  EXPECT_EQ(number(counts, "accepted") + number(counts, "late") + number(counts, "lost") +
                number(counts, "missing"),
            5 * 157);
  for (const char* none : {"stale", "malformed", "unknown", "mismatched", "dropped"})
    EXPECT_EQ(counts.at(none), 0) << none;
}

TEST_F(System, FiftySensorsAtTheirFullRateLoseNothing) {
  start("metrics = \"127.0.0.1:0\"\n");
  // As fast as bearings can be measured, one spectrum after the other: 1250 datagrams a second.
  const json sensors = sense({"--sensors", "50", "--count", "50"});
  EXPECT_EQ(sensors.at("datagrams"), 2500);
  const json counts = stop();
  EXPECT_EQ(counts.at("accepted"), 2500);
  EXPECT_EQ(counts.at("dropped"), 0);
  EXPECT_EQ(counts.at("lost").get<int>() + counts.at("missing").get<int>(), 0);
}

TEST_F(System, SensorsOfAnotherKeyOrNumberAreRefused) {
  start("");
  sense({"--first", "50", "--sensors", "2", "--count", "10", "--rate", "1000"});
  files.replace("other.key", std::string(64, '7'));
  std::filesystem::rename(files.file("other.key"), files.file("gateway.key.stolen"));
  program stranger({sensor_program, "--to", started.at("listen"), "--key",
                    files.file("gateway.key.stolen"), "--count", "10", "--rate", "1000"},
                   files.file("stranger"));
  EXPECT_EQ(stranger.wait(), 0) << stranger.said();
  const json counts = stop();
  EXPECT_EQ(counts.at("accepted"), 10);
  EXPECT_EQ(counts.at("unknown"), 10);
  EXPECT_EQ(counts.at("forged"), 10);
}

TEST_F(System, ASilentSensorIsReported) {
  // Longer than the time between two spectra of a sensor. They are sent without pause, so that a
  // slow machine causes no silence before the last one.
  start("window = 2\n");
  files.replace("gateway.toml",
                configuration("window = 2\n").replace(configuration("").find("600000"), 6, "500"));
  event("reloaded");
  sense({"--sensors", "2", "--count", "3", "--rate", "1000"});
  std::map<int, json> silent;
  while (silent.size() < 50) {
    const json found = event("status");
    if (found.at("status") == "silent") silent[found.at("sensor")] = found;
  }
  EXPECT_EQ(silent.at(1).at("received"), 3);
  EXPECT_NE(silent.at(2).at("time"), 0);
  EXPECT_EQ(silent.at(3).at("received"), 0);
  EXPECT_EQ(silent.at(3).at("time"), 0);
  stop();
}

TEST_F(System, WeightsAndRulesAreReloadedWholeOrNotAtAll) {
  start("window = 4\n");
  const auto next_status = [this] {
    sense({"--sensors", "1", "--count", "4", "--rate", "1000"});
    return event("status").at("status");
  };
  files.replace("weights.json", weights_that_find(true));
  EXPECT_EQ(event("reloaded").at("sensors"), 50);
  EXPECT_EQ(next_status(), "damaged");

  // Written in place, as a careless editor does.
  files.write("weights.json", weights_that_find(false));
  event("reloaded");
  EXPECT_EQ(next_status(), "sound");

  // A bad file is refused with its name, and the old weights hold.
  files.replace("weights.json", weights_that_find(true).substr(0, 1000));
  EXPECT_NE(event("refused").at("why").get<std::string>().find("weights.json"), std::string::npos);
  EXPECT_EQ(next_status(), "sound");
  files.replace("gateway.toml", configuration("window = 0\n"));
  EXPECT_NE(event("refused").at("why").get<std::string>().find("`window` must be from 1"),
            std::string::npos);

  // The files are right again, and a signal also starts a reload. An entry that cannot change while
  // the gateway runs is refused.
  files.replace("weights.json", weights_that_find(true));
  event("refused");
  files.replace("gateway.toml", configuration("window = 2\n"));
  event("reloaded");
  gateway->signal(SIGHUP);
  event("reloaded");
  EXPECT_EQ(next_status(), "damaged");
  EXPECT_EQ(event("status").at("measurements"), 2);
  files.replace("gateway.toml", configuration("metrics = \"127.0.0.1:0\"\n"));
  EXPECT_NE(event("refused").at("why").get<std::string>().find("`metrics` can't change"),
            std::string::npos);
  EXPECT_NE(gateway->said().find("the old configuration stays"), std::string::npos);
  stop();
}

TEST_F(System, PrometheusIsAnswered) {
  start("metrics = \"127.0.0.1:0\"\nwindow = 5\n");
  sense({"--sensors", "3", "--count", "10", "--rate", "1000", "--fault", "duplicated=4"});
  for (int each = 0; each < 6; ++each) event("status");
  // A reload updates the metrics.
  gateway->signal(SIGHUP);
  event("reloaded");
  const std::string page = http_get(started.at("metrics_port"), "/metrics");
  for (const char* line :
       {"corank_gateway_datagrams_total{fate=\"accepted\"} 30\n",
        "corank_gateway_datagrams_total{fate=\"duplicated\"} 6\n",
        "corank_gateway_measurements_total 30\n", "corank_gateway_lost_total 0\n",
        "corank_gateway_sensors{status=\"waiting\"} 47\n",
        "corank_gateway_reloads_total{result=\"done\"} 1\n",
        "# TYPE corank_gateway_batch_seconds histogram\n"})
    EXPECT_NE(page.find(line), std::string::npos) << line << "\n" << page;
  stop();
}

namespace {

// The messages that a subscriber has received: the last one of each topic.
using messages_by_topic = std::map<std::string, std::string>;

// Subscribes, and receives until `enough` is true of all messages.
template <class Enough>
messages_by_topic listen(int port, Enough enough) {
  messages_by_topic messages;
  mosquitto_lib_init();
  mosquitto* const client = mosquitto_new(nullptr, true, &messages);
  mosquitto_message_callback_set(
      client, [](mosquitto*, void* to, const mosquitto_message* message) {
        (*static_cast<messages_by_topic*>(to))[message->topic] = std::string(
            static_cast<const char*>(message->payload), static_cast<size_t>(message->payloadlen));
      });
  EXPECT_EQ(mosquitto_connect(client, "127.0.0.1", port, 60), MOSQ_ERR_SUCCESS);
  EXPECT_EQ(mosquitto_subscribe(client, nullptr, "corank/test/#", 1), MOSQ_ERR_SUCCESS);
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (!enough(messages) && std::chrono::steady_clock::now() < end &&
         mosquitto_loop(client, 100, 1) == MOSQ_ERR_SUCCESS) {
  }
  EXPECT_TRUE(enough(messages)) << messages.size() << " topics were received";
  mosquitto_destroy(client);
  mosquitto_lib_cleanup();
  return messages;
}

}  // namespace

TEST_F(System, ABrokerGetsTheLastStatusOfEachSensor) {
  const int port = free_port();
  // The gateway starts before the broker, and has messages to send.
  start("window = 5\n[mqtt]\nport = " + std::to_string(port) + "\ntopic = \"corank/test\"\n");
  sense({"--sensors", "3", "--count", "10", "--rate", "1000"});
  for (int each = 0; each < 6; ++each) event("status");

  files.write("broker.conf", "listener " + std::to_string(port) +
                                 " 127.0.0.1\nallow_anonymous true\npersistence false\n");
  const program broker({broker_program, "-c", files.file("broker.conf")}, files.file("broker"));
  while (text_of(files.file("broker")).find("running") == std::string::npos) usleep(10'000);
  const messages_by_topic first =
      listen(port, [](const messages_by_topic& all) { return all.size() == 4; });
  EXPECT_EQ(first.at("corank/test/state"), "online");
  for (int sensor = 1; sensor <= 3; ++sensor) {
    const json message = json::parse(first.at("corank/test/sensor/" + std::to_string(sensor)));
    EXPECT_EQ(message.at("sensor"), sensor);
    EXPECT_EQ(message.at("received"), 10);
  }
  // A connected client receives the next messages.
  sense({"--first", "4", "--sensors", "1", "--count", "5", "--rate", "1000"});
  listen(port, [](const messages_by_topic& all) { return all.contains("corank/test/sensor/4"); });
  // The broker sends the message that the gateway cannot send any more.
  gateway->signal(SIGKILL);
  gateway->wait();
  EXPECT_EQ(listen(port,
                   [](const messages_by_topic& all) {
                     return all.contains("corank/test/state") &&
                            all.at("corank/test/state") == "offline";
                   })
                .size(),
            5u);

  start("[mqtt]\nport = " + std::to_string(port) + "\ntopic = \"corank/test\"\n");
  listen(port, [](const messages_by_topic& all) {
    return all.contains("corank/test/state") && all.at("corank/test/state") == "online";
  });
  stop();
  listen(port, [](const messages_by_topic& all) {
    return all.contains("corank/test/state") && all.at("corank/test/state") == "offline";
  });
}

// Clients that connect and send nothing, half a request, or everything but the end.
TEST_F(System, AStalledClientDelaysNoOther) {
  start("metrics = \"127.0.0.1:0\"\n");
  const int port = started.at("metrics_port");
  const sockaddr_in address = local(port);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: here\r\n";
  std::vector<descriptor> stalled;
  for (size_t each = 0; each < 200; ++each) {
    descriptor& socket = stalled.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    checked(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            "connecting");
    const size_t length = each % request.size();
    // The server may have closed this connection in favour of a later one.
    if (length > 0) [[maybe_unused]]
      const ssize_t sent = send(socket.get(), request.data(), length, MSG_NOSIGNAL);
    if (each % 20 != 0) continue;
    EXPECT_NE(http_get(port, "/metrics").find("corank_gateway_lost_total 0\n"), std::string::npos);
  }
  // The last silent client is still connected, and the first one was replaced. So no request had
  // to wait for them.
  char byte;
  EXPECT_EQ(recv(stalled.back().get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(recv(stalled.front().get(), &byte, 1, MSG_DONTWAIT), 0);
  stop();
}

TEST_F(System, OtherRequestsThanForThePageAreRefused) {
  start("metrics = \"127.0.0.1:0\"\n");
  const int port = started.at("metrics_port");
  EXPECT_EQ(http_get(port, "/"), "404 Not Found\n");
  EXPECT_EQ(http_get(port, "/metrics and more"), "400 Bad Request\n");
  EXPECT_EQ(http_get(port, "/metrics?" + std::string(20'000, 'x')),
            "431 Request Header Fields Too Large\n");
  EXPECT_NE(http_get(port, "/metrics?a=b").find("corank_gateway_lost_total 0\n"),
            std::string::npos);
  stop();
}

namespace {

int listen_at_a_free_port(descriptor& listener) {
  listener = descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = local(0);
  socklen_t length = sizeof(address);
  checked(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length), "listening");
  checked(::listen(listener.get(), 8), "listening");
  checked(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), "listening");
  return ntohs(address.sin_port);
}

std::string read_some(int socket) {
  char bytes[4096];
  const ssize_t count = recv(socket, bytes, sizeof(bytes), 0);
  return {bytes, static_cast<size_t>(std::max<ssize_t>(count, 0))};
}

// Returns the value of a line of the metrics.
int value_of(const std::string& page, const std::string& name) {
  const size_t at = page.find("\n" + name + " ");
  return at == page.npos ? -1 : std::stoi(page.substr(at + name.size() + 2));
}

}  // namespace

// This broker accepts everything, but acknowledges only the connection.
TEST_F(System, ABrokerThatAcknowledgesNothingHasABoundedNumberOfMessages) {
  descriptor listener;
  const int port = listen_at_a_free_port(listener);
  start("window = 1\nmetrics = \"127.0.0.1:0\"\n[mqtt]\nport = " + std::to_string(port) +
        "\ntopic = \"corank/test\"\n");
  const descriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_NE(read_some(connection.get()), "");
  const unsigned char accepted[] = {0x20, 2, 0, 0};
  checked(send(connection.get(), accepted, sizeof(accepted), MSG_NOSIGNAL), "accepting");
  // The connection is established when its first message is there.
  ASSERT_NE(read_some(connection.get()), "");
  sense({"--sensors", "50", "--count", "40", "--rate", "500"});
  for (int each = 0; each < 2000; ++each) event("status");
  gateway->signal(SIGHUP);
  event("reloaded");
  const std::string page = http_get(started.at("metrics_port"), "/metrics");
  const int unacknowledged = value_of(page, "corank_gateway_mqtt_unacknowledged"),
            waiting = value_of(page, "corank_gateway_mqtt_waiting"),
            dropped = value_of(page, "corank_gateway_mqtt_dropped_total");
  EXPECT_EQ(unacknowledged, 64) << page;
  EXPECT_LE(waiting, 51);
  // `online`, and a status for each spectrum.
  EXPECT_EQ(unacknowledged + waiting + dropped, 1 + 2000);
  gateway->signal(SIGTERM);
  event("stopped");
  EXPECT_EQ(gateway->wait(), 0) << gateway->said();
}

// The library keeps messages of the highest quality until they are released.
TEST_F(System, ABrokerThatSendsMessagesIsDisconnected) {
  descriptor listener;
  const int port = listen_at_a_free_port(listener);
  start("[mqtt]\nport = " + std::to_string(port) + "\ntopic = \"corank/test\"\n");
  for (int connections = 0; connections < 2; ++connections) {
    const descriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_NE(read_some(connection.get()), "");
    // The acceptance; then a message of quality 2 with the topic `a`, number 1 and one byte.
    const unsigned char intrusion[] = {0x20, 2, 0, 0, 0x34, 6, 0, 1, 'a', 0, 1, 'x'};
    checked(send(connection.get(), intrusion, sizeof(intrusion), MSG_NOSIGNAL), "sending");
    while (!read_some(connection.get()).empty()) {
    }
  }
  EXPECT_NE(gateway->said().find("the broker sends messages"), std::string::npos);
  stop();
}

// The output is whole lines, also after the disk was full for a while.
TEST_F(System, AFullDiskLeavesNoHalfLine) {
  start("window = 1\nmetrics = \"127.0.0.1:0\"\n");
  files.replace("gateway.toml",
                configuration("window = 1\nmetrics = \"127.0.0.1:0\"\noutput = \"lines\"\n"));
  const auto written = [this] { return text_of(files.file("lines")); };
  const auto until = [](auto happened) {
    const auto end = std::chrono::steady_clock::now() + test::patience;
    while (!happened()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      usleep(10'000);
    }
  };
  until([&] { return written().ends_with("\n"); });
  rlimit before{};
  prlimit(gateway->pid(), RLIMIT_FSIZE, nullptr, &before);
  const rlimit full{.rlim_cur = written().size() + 1000, .rlim_max = before.rlim_max};
  prlimit(gateway->pid(), RLIMIT_FSIZE, &full, nullptr);
  const auto count = [this](const std::string& name) {
    return value_of(http_get(started.at("metrics_port"), "/metrics"), name);
  };
  sense({"--sensors", "20", "--count", "1"});
  until([&] { return count("corank_gateway_measurements_total") == 20; });
  EXPECT_GT(count("corank_gateway_unwritten_total"), 0);
  prlimit(gateway->pid(), RLIMIT_FSIZE, &before, nullptr);
  sense({"--first", "21", "--sensors", "20", "--count", "1"});
  gateway->signal(SIGTERM);
  EXPECT_EQ(gateway->wait(), 0) << gateway->said();
  std::istringstream lines(written());
  int statuses = 0;
  for (std::string line; std::getline(lines, line);) {
    ASSERT_TRUE(json::accept(line)) << line;
    statuses += json::parse(line).at("event") == "status";
  }
  EXPECT_GT(statuses, 20);
  EXPECT_LT(statuses, 40);
}

TEST_F(System, ErrorsAtTheStartAreExplained) {
  const auto says = [](const std::string& said, const std::string& part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  says(error_of("listen = 5\n"), "`listen` must be a text");
  says(error_of("listen =\n"), "gateway.toml:1: ");
  says(error_of(""), "`key_file` is missing");
  says(error_of("key_file = \"gateway.key\"\n"), "`weights` is missing");
  says(error_of(configuration("window = 99999\n")), "line 5: `window` must be from 1 to 10000");
  says(error_of(configuration("window = 9223372036854775807\n")),
       "line 5: `window` must be from 1 to 10000");
  says(error_of(configuration("window = 18446744073709551615\n")), "gateway.toml:5: ");
  says(error_of(configuration("window = 2.0\n")), "line 5: `window` must be a whole number");
  says(error_of(configuration("session_ahead_ms = -1\n")),
       "line 5: `session_ahead_ms` must be from 0");
  says(error_of(configuration("metrics = \"127.0.0.1:70000\"\n")),
       "line 5: `metrics` must be HOST:PORT");
  says(error_of("listen = \"127.0.0.1:99999\"\n"), "line 1: `listen` must be HOST:PORT");
  says(error_of(configuration("windows = 3\n")), "line 5: there is no entry `windows`");
  says(error_of(configuration("window = 3\nalarm_after = 4\n")), "`alarm_after` is greater");
  says(error_of(configuration("model = \"threads\"\n")), "must be `sequential` or `coroutine`");
  says(error_of(configuration("[mqtt]\nport = 70000\n")), "`mqtt.port` must be from 1 to 65535");
  says(error_of(configuration("[mqtt]\ntopic = \"a/#\"\n")), "is no topic");
  says(error_of(configuration("metrics = \"nowhere\"\n")), "`metrics` must be HOST:PORT");
  says(error_of(configuration("metrics = \"no such host:1\"\n")), "metrics can't be served");
  says(error_of(configuration("output = \"no/such/folder\"\n")), "no/such/folder");
  says(error_of(configuration("[gpio]\nchip = \"no-such-chip\"\n")), "GPIO");
  files.write("gateway.key", "no key");
  says(error_of(configuration(""), {"--check"}), "gateway.key: a key is 64 hexadecimal digits");
}

// Both programs at one address, and `--check` of a valid configuration.
TEST_F(System, AnAddressInUseIsRefused) {
  start("");
  std::string same = configuration("");
  const std::string address = started.at("listen");
  same.replace(same.find("127.0.0.1:0"), 11, address);
  EXPECT_NE(error_of(same).find("Address already in use"), std::string::npos);
  program check({gateway_program, files.file("gateway.toml"), "--check"}, files.file("errors"));
  EXPECT_NE(check.line().find("50 sensors with 256 bins each"), std::string::npos);
  EXPECT_EQ(check.wait(), 0);
}
