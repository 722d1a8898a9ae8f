#include "sensors.hpp"

#include "bearing.hpp"
#include "faults.hpp"
#include "spectrum.hpp"
#include "udp.hpp"
#include "wire.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>

namespace gateway {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

uint64_t microseconds_since_1970() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
}

struct sensor {
  sensor(uint32_t its_number, const sensor_options& of, const key& of_gateway,
         const std::vector<fault_rule>& faults)
      : number(its_number),
        on(its_number, of.seed),
        secret(key_of_sensor(of_gateway, its_number)),
        disturbs(faults) {}

  uint32_t number;
  bearing on;
  key secret;
  disturber disturbs;
  uint32_t sequence = 0;
};

}  // namespace

void send(const sensor_options& chosen) {
  if (chosen.key_file.empty()) throw std::runtime_error("--key FILE is missing: the gateway's key");
  const key of_gateway = read_key(chosen.key_file);
  const damage condition = damage_of_name(chosen.condition);
  std::vector<fault_rule> faults;
  for (const std::string& text : chosen.faults) faults.push_back(fault_of_text(text));
  std::vector<std::unique_ptr<sensor>> sensors;
  for (uint32_t at = 0; at < chosen.sensors; ++at)
    sensors.push_back(std::make_unique<sensor>(chosen.first + at, chosen, of_gateway, faults));
  const udp_sender out(chosen.to);
  spectrum transforms(chosen.features);
  std::vector<float> samples(transforms.samples());
  std::vector<int16_t> bins(chosen.features);
  bytes datagram(datagram_bytes(chosen.features));

  // By default, each measurement begins where the one before ends. The sensors' turns are spread
  // over that time.
  const double rate = chosen.rate > 0
                          ? chosen.rate
                          : samples_per_second / static_cast<double>(transforms.samples());
  const auto between = std::chrono::duration_cast<steady_clock::duration>(
      std::chrono::duration<double>(1 / rate / chosen.sensors));
  const uint64_t session = microseconds_since_1970();
  const auto begin = steady_clock::now();
  auto next = begin;
  uint64_t sent = 0;
  for (uint64_t each = 0; chosen.count == 0 || each < chosen.count; ++each)
    for (const auto& now : sensors) {
      now->on.measure(condition, samples);
      transforms.transform(samples, bins);
      write({.sensor = now->number,
             .sequence = now->sequence++,
             .session = session,
             .time = microseconds_since_1970(),
             .features = 0},
            bins, now->secret, datagram.data());
      std::this_thread::sleep_until(next);
      next += between;
      for (const bytes& part : now->disturbs.send(datagram)) sent += out.send(part);
    }
  for (const auto& each : sensors)
    for (const bytes& part : each->disturbs.end()) sent += out.send(part);

  nlohmann::ordered_json summary{
      {"sensors", chosen.sensors}, {"spectra", chosen.count * chosen.sensors}, {"datagrams", sent}};
  for (size_t at = 0; at < fault_kinds; ++at) {
    uint64_t count = 0;
    for (const auto& each : sensors) count += each->disturbs.count(static_cast<fault>(at));
    summary[std::string(name_of(static_cast<fault>(at)))] = count;
  }
  summary["seconds"] = std::chrono::duration<double>(steady_clock::now() - begin).count();
  std::printf("%s\n", summary.dump().c_str());
}

void print_dataset(const sensor_options& chosen) {
  if (chosen.count == 0)
    throw std::runtime_error("--dataset needs --count, how many spectra of each kind");
  spectrum transforms(chosen.features);
  std::vector<float> samples(transforms.samples());
  std::vector<int16_t> bins(chosen.features);
  for (uint32_t at = 0; at < chosen.sensors; ++at) {
    bearing on(chosen.first + at, chosen.seed);
    for (uint64_t each = 0; each < chosen.count; ++each)
      for (const char* condition : {"sound", each % 2 == 0 ? "outer" : "inner"}) {
        on.measure(damage_of_name(condition), samples);
        transforms.transform(samples, bins);
        std::printf("%u,%s", chosen.first + at, condition);
        for (const int16_t bin : bins) std::printf(",%d", bin);
        std::printf("\n");
      }
  }
}

}  // namespace gateway
