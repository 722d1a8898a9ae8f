// Peers with any behaviour, for any time: an MQTT broker, HTTP clients, senders of datagrams, and
// files that change.
//
//   gateway-hostile [SECONDS [SEED]]
//
// Each peer draws its own random numbers from the seed. The gateway must live, answer a good
// client, keep its memory and descriptors bounded, write whole lines, and end on request.
#include "made.hpp"
#include "program.hpp"

#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <sstream>
#include <thread>

using namespace gateway;
using gateway::test::folder;
using gateway::test::program;
using nlohmann::json;
using std::chrono::steady_clock;

namespace {

// The limit includes AddressSanitizer, which keeps 16 MiB of freed memory.
constexpr long most_kilobytes = 400'000;
constexpr long most_descriptors = 120;

std::atomic<bool> ends = false;

using lots = std::mt19937_64;

bool one_in(lots& chance, unsigned count) { return chance() % count == 0; }

std::string any_bytes(lots& chance, size_t most) {
  std::string made(chance() % (most + 1), '\0');
  for (char& each : made) each = static_cast<char>(chance());
  return made;
}

sockaddr_in local(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

descriptor connect_to(int port) {
  descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = local(port);
  const timeval patience{.tv_sec = test::patience.count(), .tv_usec = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return {};
  return socket;
}

void say(const descriptor& to, const std::string& text) {
  [[maybe_unused]] const ssize_t sent =
      send(to.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void pause_up_to(lots& chance, unsigned milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(chance() % milliseconds));
}

// Returns one packet of MQTT, which is usually valid.
std::string any_packet(lots& chance) {
  const auto acknowledgement = [](char kind, uint64_t number) {
    return std::string{kind, 2, static_cast<char>(number >> 8 & 0xff),
                       static_cast<char>(number & 0xff)};
  };
  switch (chance() % 8) {
    case 0:
      return any_bytes(chance, 300);
    case 1:
      return std::string("\x20\x02\x00", 3) + static_cast<char>(chance() % 7);
    case 2:
      return acknowledgement(0x50, chance() % 70);
    // A message, with a length that may be wrong.
    case 3:
      return std::string{static_cast<char>(0x30 | chance() % 16), static_cast<char>(chance() % 40),
                         0, 1, 'a'} +
             any_bytes(chance, 30);
    // The greatest possible length, without the data for it.
    case 4:
      return one_in(chance, 50) ? "\x30\xff\xff\xff\x7f" : "";
    case 5:
      return std::string("\xd0\x00", 2);
    default:
      return acknowledgement(0x40, 1 + chance() % 70);
  }
}

void be_a_broker(const descriptor& listener, lots chance) {
  while (!ends) {
    pollfd waits{.fd = listener.get(), .events = POLLIN, .revents = 0};
    if (poll(&waits, 1, 100) <= 0) continue;
    const descriptor connection(
        accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!one_in(chance, 8)) say(connection, std::string("\x20\x02\x00\x00", 4));
    const bool reads = !one_in(chance, 4), acknowledges = one_in(chance, 2);
    uint64_t next = 1;
    for (uint64_t turns = chance() % 200; turns > 0 && !ends; --turns) {
      char bytes[4096];
      if (reads && recv(connection.get(), bytes, sizeof(bytes), 0) == 0) break;
      if (acknowledges) {
        say(connection, std::string{0x40, 2, static_cast<char>(next >> 8 & 0xff),
                                    static_cast<char>(next & 0xff)});
        ++next;
      }
      if (one_in(chance, 20)) say(connection, any_packet(chance));
      pause_up_to(chance, 20);
    }
  }
}

void be_clients(int port, lots chance) {
  std::vector<descriptor> open;
  while (!ends) {
    if (one_in(chance, 3) && open.size() < 300) open.push_back(connect_to(port));
    if (!open.empty()) {
      const size_t which = chance() % open.size();
      switch (chance() % 5) {
        case 0:
          say(open[which], any_bytes(chance, 2000));
          break;
        case 1:
          say(open[which], "GET /metrics HTTP/1.1\r\n");
          break;
        case 2:
          say(open[which], "\r\n");
          break;
        case 3:
          say(open[which], "GET /metrics HTTP/1.1\r\n\r\n" + any_bytes(chance, 100));
          break;
        default:
          std::swap(open[which], open.back());
          open.pop_back();
      }
    }
    pause_up_to(chance, 3);
  }
}

void send_datagrams(const std::string& listen, lots chance) {
  const descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = local(std::stoi(listen.substr(listen.rfind(':') + 1)));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    std::abort();
  std::vector<std::vector<std::byte>> recorded;
  while (!ends) {
    const auto sensor = static_cast<uint32_t>(chance() % 52);
    std::vector<std::byte> made = test::datagram(
        sensor, static_cast<uint32_t>(one_in(chance, 50) ? chance() : chance() % 1000),
        std::vector<int16_t>(256, static_cast<int16_t>(chance())),
        one_in(chance, 20) ? chance() : chance() % 5);
    if (one_in(chance, 10)) {
      made[chance() % header_bytes] ^= static_cast<std::byte>(1 << chance() % 8);
      if (one_in(chance, 2)) sign(made, key_of_sensor(test::secret, sensor));
    }
    if (one_in(chance, 10)) made.resize(chance() % (2 * made.size()));
    if (one_in(chance, 10) && !recorded.empty()) made = recorded[chance() % recorded.size()];
    if (recorded.size() < 1000) recorded.push_back(made);
    [[maybe_unused]] const ssize_t sent = ::send(socket.get(), made.data(), made.size(), 0);
    if (one_in(chance, 30)) pause_up_to(chance, 5);
  }
}

void change_files(const folder& files, const std::string& configuration, const std::string& weights,
                  lots chance) {
  while (!ends) {
    std::string text = one_in(chance, 2) ? configuration : weights;
    const std::string name = text == configuration ? "gateway.toml" : "weights.json";
    switch (chance() % 4) {
      case 0:
        text.resize(chance() % text.size());
        break;
      case 1:
        text[chance() % text.size()] = static_cast<char>(chance());
        break;
      case 2:
        text.insert(chance() % text.size(), any_bytes(chance, 20));
        break;
      default:
        break;
    }
    files.replace(name, text);
    pause_up_to(chance, 300);
  }
}

// Returns the number behind a line's name in a file of /proc.
long number_in(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name)) return std::stol(line.substr(name.size()));
  return -1;
}

void must(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "gateway-hostile: %s\n", what.c_str());
  std::_Exit(1);
}

void check(const program& gateway, int metrics_port) {
  const std::string process = "/proc/" + std::to_string(gateway.pid());
  const long kilobytes = number_in(process + "/status", "VmRSS:");
  must(kilobytes > 0, "the gateway has ended: " + gateway.said());
  must(kilobytes < most_kilobytes, "the gateway has " + std::to_string(kilobytes) + " KiB");
  long descriptors = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(process + "/fd"))
    ++descriptors;
  must(descriptors < most_descriptors,
       "the gateway has " + std::to_string(descriptors) + " descriptors");
  // So many other clients connect that the server may close this connection for one of them.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const descriptor socket = connect_to(metrics_port);
    say(socket, "GET /metrics HTTP/1.1\r\n\r\n");
    std::string page;
    char bytes[4096];
    for (ssize_t count; (count = recv(socket.get(), bytes, sizeof(bytes), 0)) > 0;)
      page.append(bytes, static_cast<size_t>(count));
    if (page.find("corank_gateway_batch_seconds_count") != page.npos) return;
  }
  must(false, "a good client is not answered");
}

}  // namespace

int main(int count, char** arguments) {
  const auto seconds = std::chrono::seconds(count > 1 ? std::stoul(arguments[1]) : 5);
  const uint64_t seed = count > 2 ? std::stoull(arguments[2]) : std::random_device()();
  std::printf("gateway-hostile %lld %llu\n", static_cast<long long>(seconds.count()),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  setenv("ASAN_OPTIONS", "quarantine_size_mb=16", 0);
  std::signal(SIGPIPE, SIG_IGN);

  const folder files;
  std::string key;
  for (const unsigned char byte : test::secret) {
    constexpr char digits[] = "0123456789abcdef";
    key.append({digits[byte >> 4], digits[byte & 15]});
  }
  files.write("gateway.key", key);
  std::ifstream trained(CORANK_WEIGHTS);
  const std::string weights{std::istreambuf_iterator<char>(trained), {}};
  files.write("weights.json", weights);
  const descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = local(0);
  socklen_t length = sizeof(address);
  checked(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length), "listening");
  checked(::listen(listener.get(), 8), "listening");
  checked(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), "listening");
  // The standard output has only the first line. Later lines go to the file.
  const std::string configuration =
      "listen = \"127.0.0.1:0\"\nkey_file = \"gateway.key\"\nweights = \"weights.json\"\nwindow = "
      "2\nsilent_after_ms = 50\nmetrics = \"127.0.0.1:0\"\n[mqtt]\nport = " +
      std::to_string(ntohs(address.sin_port)) + "\ntopic = \"corank/test\"\n";
  files.write("gateway.toml", configuration);
  program gateway({CORANK_GATEWAY, "--config", files.file("gateway.toml")}, files.file("errors"));
  const json started = json::parse(gateway.line());
  std::atomic<uint64_t> lines = 0;
  bool ended_well = false;
  std::thread reader([&] {
    // Reads until the last line, which has the counts.
    for (;; ++lines) {
      const std::string line = gateway.line();
      must(json::accept(line), "no whole line: " + line);
      if (json::parse(line).at("event") == "stopped") {
        ended_well = true;
        return;
      }
    }
  });
  std::vector<std::thread> peers;
  const int port = started.at("metrics_port");
  const std::string listen = started.at("listen");
  peers.emplace_back([&] { be_a_broker(listener, lots(seed)); });
  peers.emplace_back([&] { be_clients(port, lots(seed + 1)); });
  peers.emplace_back([&] { send_datagrams(listen, lots(seed + 2)); });
  peers.emplace_back([&] { change_files(files, configuration, weights, lots(seed + 3)); });

  for (const auto end = steady_clock::now() + seconds; steady_clock::now() < end;) {
    check(gateway, port);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  ends = true;
  for (std::thread& each : peers) each.join();
  check(gateway, port);
  gateway.signal(SIGTERM);
  reader.join();
  const int code = gateway.wait();
  must(ended_well && code == 0,
       "the gateway ended with " + std::to_string(code) + ": " + gateway.said());
  std::printf("%llu lines\n", static_cast<unsigned long long>(lines.load()));
}
