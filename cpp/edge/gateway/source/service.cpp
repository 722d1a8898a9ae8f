#include "service.hpp"

#include "notify.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

namespace gateway {
namespace {

using json = nlohmann::ordered_json;

instant now() { return std::chrono::steady_clock::now(); }

clock_time time_of_day() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<clock_time>(
      std::max<int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since).count(), 0));
}

json json_of(const report& of) {
  json made{{"event", "status"},
            {"sensor", of.sensor},
            {"status", name_of(of.status)},
            {"measurements", of.measurements}};
  if (of.status != condition::silent) made["damaged"] = of.damaged;
  made["time"] = of.time;
  made["received"] = of.received;
  made["lost"] = of.lost;
  made["late"] = of.late;
  made["duplicated"] = of.duplicated;
  return made;
}

json json_of(const totals& of, uint64_t dropped) {
  json made;
  for (size_t at = 0; at < fates; ++at)
    made[std::string(name_of(static_cast<fate>(at)))] = of.datagrams[at];
  made["lost"] = of.lost;
  made["missing"] = of.missing;
  made["dropped"] = dropped;
  return made;
}

descriptor blocked_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return descriptor(checked(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "waiting for signals"));
}

}  // namespace

service::service(std::string file, configuration with)
    : file_(std::move(file)),
      with_(std::move(with)),
      roster_(with_.table, with_.secret, with_.chosen.by, now()),
      socket_(with_.chosen.listen, with_.chosen.receive_buffer),
      signals_(blocked_signals()),
      timer_(
          checked(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "making a timer")),
      epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "waiting for several things")),
      loader_(file_) {
  const settings& chosen = with_.chosen;
  if (!chosen.metrics.empty()) metrics_.emplace(chosen.metrics);
  if (chosen.gpio) marker_.emplace(chosen.gpio->chip, chosen.gpio->line);
  if (chosen.mqtt) mqtt_.emplace(*chosen.mqtt);
  use_output();
  watcher_.watch(files_of(file_, chosen));
  set_timer();
  for (const int fd : {socket_.fd(), signals_.get(), timer_.get(), watcher_.fd(), loader_.fd()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    checked(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "waiting for several things");
  }
  if (socket_.buffer() < chosen.receive_buffer)
    std::fprintf(stderr,
                 "corank-gateway: the kernel keeps only %zu of %zu bytes while the gateway is "
                 "busy; give it CAP_NET_ADMIN, or type: sysctl net.core.rmem_max=%zu\n",
                 socket_.buffer(), chosen.receive_buffer, chosen.receive_buffer);
}

service::~service() = default;

void service::run() {
  json started{{"event", "started"},
               {"listen", socket_.address()},
               {"sensors", with_.table->size()},
               {"features", with_.table->features()}};
  if (metrics_) started["metrics_port"] = metrics_->port();
  say(started.dump());
  show_metrics();
  notify("READY=1");
  while (!stops_) {
    epoll_event events[8];
    const int count = epoll_wait(epoll_.get(), events, std::size(events), -1);
    if (count < 0 && errno != EINTR) checked(count, "waiting");
    for (int at = 0; at < count; ++at) {
      const int fd = events[at].data.fd;
      if (fd == socket_.fd()) {
        receive();
      } else if (fd == timer_.get()) {
        uint64_t times;
        if (::read(timer_.get(), &times, sizeof(times)) > 0)
          report_all(roster_.check_silence(now()));
        show_metrics();
      } else if (fd == signals_.get()) {
        handle_signal();
      } else if (fd == watcher_.fd()) {
        if (watcher_.changed()) loader_.request();
      } else if (fd == loader_.fd()) {
        handle_reload();
      }
    }
  }
  stop();
}

// Receives all pending datagrams, up to a limit that lets other events have their turn.
void service::receive() {
  constexpr int most_batches = 16;
  size_t came = udp_receiver::at_a_time;
  for (int batch = 0; batch < most_batches && came == udp_receiver::at_a_time; ++batch) {
    std::byte* slots[udp_receiver::at_a_time];
    size_t sizes[udp_receiver::at_a_time];
    for (std::byte*& slot : slots) slot = roster_.take_slot();
    came = socket_.receive(slots, roster_.room(), sizes);
    const instant when = now();
    const clock_time clock = time_of_day();
    for (size_t at = 0; at < came; ++at) roster_.accept(slots[at], sizes[at], when, clock);
    for (size_t at = udp_receiver::at_a_time; at > came; --at)
      roster_.give_back_slot(slots[at - 1]);
  }
  if (!roster_.due()) return;
  const instant begin = now();
  std::vector<report> reports;
  {
    const marked while_judging(marker_ ? &*marker_ : nullptr);
    reports = roster_.evaluate();
  }
  snapshot_.add_batch(std::chrono::duration<double>(now() - begin).count());
  report_all(reports);
}

void service::report_all(const std::vector<report>& reports) {
  for (const report& each : reports) {
    const std::string line = json_of(each).dump();
    say(line);
    if (mqtt_) mqtt_->publish("sensor/" + std::to_string(each.sensor), line);
  }
}

void service::handle_signal() {
  signalfd_siginfo which;
  while (::read(signals_.get(), &which, sizeof(which)) == sizeof(which)) {
    if (which.ssi_signo == SIGHUP)
      loader_.request();
    else
      stops_ = true;
  }
}

void service::handle_reload() {
  loader::outcome outcome = loader_.take();
  if (const std::string* const why = std::get_if<std::string>(&outcome)) return refuse(*why);
  auto& next = std::get<configuration>(outcome);
  if (const std::string entry = needs_restart(with_.chosen, next.chosen); !entry.empty())
    return refuse(file_ + ": `" + entry + "` can't change while the gateway runs; restart it");
  roster_.reload(next.table, next.secret, next.chosen.by, now());
  with_ = std::move(next);
  watcher_.watch(files_of(file_, with_.chosen));
  set_timer();
  ++snapshot_.reloads;
  try {
    use_output();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "corank-gateway: %s\n", error.what());
  }
  // First, so that a reader of the reload's message finds it counted.
  show_metrics();
  say(json{{"event", "reloaded"},
           {"sensors", with_.table->size()},
           {"features", with_.table->features()}}
          .dump());
}

void service::refuse(const std::string& why) {
  ++snapshot_.refused_reloads;
  std::fprintf(stderr, "corank-gateway: nothing was reloaded, the old configuration stays: %s\n",
               why.c_str());
  show_metrics();
  say(json{{"event", "refused"}, {"why", why}}.dump(-1, ' ', false,
                                                    json::error_handler_t::replace));
}

// Opens the output anew with each reload, so that a log that was moved away is closed.
void service::use_output() { output_ = line_output(with_.chosen.output); }

// Sets the timer so that a silent sensor is reported at most a tenth of its time late.
void service::set_timer() {
  const auto period = std::clamp(with_.chosen.by.silent_after / 10, std::chrono::milliseconds(1),
                                 std::chrono::milliseconds(1000));
  const timespec each{.tv_sec = period.count() / 1000,
                      .tv_nsec = period.count() % 1000 * 1'000'000};
  const itimerspec wanted{.it_interval = each, .it_value = each};
  checked(timerfd_settime(timer_.get(), 0, &wanted, nullptr), "setting a timer");
}

void service::say(const std::string& line) {
  if (!output_.write(line)) ++snapshot_.unwritten;
}

void service::show_metrics() {
  if (!metrics_) return;
  snapshot_.counted = roster_.count();
  snapshot_.dropped = socket_.dropped();
  if (mqtt_) snapshot_.mqtt = mqtt_->counts();
  metrics_->show(snapshot_);
}

// Classifies the datagrams that have arrived, and stops.
void service::stop() {
  notify("STOPPING=1");
  receive();
  say(json{{"event", "stopped"}, {"datagrams", json_of(roster_.count(), socket_.dropped())}}
          .dump());
}

}  // namespace gateway
