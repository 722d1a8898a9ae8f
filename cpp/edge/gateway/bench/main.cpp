// The experiment `gateway` (thesis, chapter 5). The measurements of S sensors, M of each with F
// bins, are classified one after the other and interleaved, in turn. Between two runs the caches
// are emptied. Prints first whether the machine counts energy, then one line for each run and
// metric.
#include "bearing.hpp"
#include "classify.hpp"
#include "energy.hpp"
#include "marker.hpp"
#include "spectrum.hpp"

#include <corank/interleave/machine.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace gateway;

struct options {
  bool quick = false;
  int runs = 100;
  // The seconds after which no run begins at a point, except the first; 0 for no limit.
  double seconds = 0;
  std::string layout;
  std::string compiler = "unknown";
  std::string weights;
  std::string gpio_chip;
  unsigned gpio_line = 0;
};

// The subject of one measurement.
struct point {
  size_t sensors, measurements, features;
  std::string layout;
};

struct freed {
  void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{64}); }
};

// The spectra of a point, as the gateway stores them. Each begins a line of the cache, with room
// for the rest of its datagram behind it. `scattered` is the state of slots after a while: any free
// slot took the next datagram.
class spectra {
 public:
  explicit spectra(const point& at) {
    const size_t count = at.sensors * at.measurements,
                 stride = (at.features * sizeof(int16_t) + 48 + 64) / 64 * 64;
    memory_.reset(static_cast<std::byte*>(::operator new(count * stride, std::align_val_t{64})));
    std::vector<size_t> places(count);
    std::iota(places.begin(), places.end(), size_t{0});
    if (at.layout == "scattered") std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
    // The thesis's values: a series of a Mersenne twister with a fixed seed.
    std::mt19937 values;
    for (size_t each = 0; each < count; ++each) {
      auto* const bins = reinterpret_cast<int16_t*>(memory_.get() + places[each] * stride);
      for (size_t bin = 0; bin < at.features; ++bin) bins[bin] = static_cast<int16_t>(values());
      rows.push_back({.bins = bins, .machine = each / at.measurements});
    }
  }

  std::vector<measurement> rows;

 private:
  std::unique_ptr<std::byte, freed> memory_;
};

sensor_table table_of(const point& at) {
  std::mt19937 values;
  std::vector<machine> machines(at.sensors);
  const auto most = static_cast<int32_t>(most_weight / at.features);
  for (size_t each = 0; each < at.sensors; ++each) {
    machines[each].sensor = static_cast<uint32_t>(each);
    for (size_t bin = 0; bin < at.features; ++bin)
      machines[each].weights.push_back(
          static_cast<int16_t>(static_cast<int32_t>(values() % (2 * most + 1)) - most));
  }
  return sensor_table(std::move(machines));
}

// Modifies more memory than the caches hold, so that nothing else is in them.
class flood {
 public:
  flood() : memory_(std::max<size_t>(3 * corank::machine_memory().last_cache, 64 << 20)) {}
  void operator()() {
    for (size_t at = 0; at < memory_.size(); at += 64) ++memory_[at];
    asm volatile("" ::"r"(memory_.data()) : "memory");
  }

 private:
  std::vector<unsigned char> memory_;
};

double nanoseconds(clockid_t of) {
  timespec time;
  clock_gettime(of, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

class experiment {
 public:
  explicit experiment(const options& chosen) : chosen_(chosen) {
    std::printf("energy: %s\n", energy_.error().empty()
                                    ? "counted by the kernel for the whole processor"
                                    : energy_.error().c_str());
    // A line for each model, as in the thesis.
    if (!chosen.gpio_chip.empty())
      for (unsigned each = 0; each < 2; ++each)
        markers_[each] = std::make_unique<marker>(chosen.gpio_chip, chosen.gpio_line + each);
  }

  void measure(const point& at) {
    const spectra data(at);
    const sensor_table table = table_of(at);
    std::vector<uint8_t> expected(data.rows.size()), decided(data.rows.size());
    classify(model::sequential, table, data.rows, expected.data());
    const double first = nanoseconds(CLOCK_MONOTONIC);
    const auto over = [&] {
      return chosen_.seconds > 0 && nanoseconds(CLOCK_MONOTONIC) - first > chosen_.seconds * 1e9;
    };
    for (int run = 0; run < chosen_.runs && (run == 0 || !over()); ++run)
      // The order alternates, so that neither model gains by what the other leaves in the caches.
      for (const model by : run % 2 == 0 ? std::array{model::sequential, model::coroutine}
                                         : std::array{model::coroutine, model::sequential}) {
        std::fill(decided.begin(), decided.end(), uint8_t{2});
        empty_caches_();
        marker* const mark = markers_[by == model::coroutine].get();
        energy_.since_last();
        double time, cpu;
        {
          const marked while_judging(mark);
          const double begin = nanoseconds(CLOCK_MONOTONIC),
                       cpu_begin = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
          classify(by, table, data.rows, decided.data());
          cpu = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_begin;
          time = nanoseconds(CLOCK_MONOTONIC) - begin;
        }
        const std::optional<uint64_t> energy = energy_.since_last();
        if (decided != expected)
          throw std::runtime_error(std::string(name_of(by)) + " decided otherwise than sequential");
        print(at, by, "time", "ns", time, run);
        print(at, by, "cpu-time", "ns", cpu, run);
        if (energy) print(at, by, "energy", "uJ", static_cast<double>(*energy), run);
      }
  }

  // Measures the accuracy on spectra that no training has seen: from each sensor, as many of a
  // sound bearing as of a damaged one.
  void accuracy() {
    const sensor_table table = sensor_table::read(chosen_.weights);
    constexpr uint64_t unseen = 1'000'003;
    const size_t each_kind = chosen_.quick ? 40 : 200;
    spectrum transforms(table.features());
    std::vector<float> samples(transforms.samples());
    std::vector<int16_t> bins(table.size() * 2 * each_kind * table.features());
    std::vector<measurement> rows;
    std::vector<uint8_t> truth;
    for (size_t at = 0; at < table.size(); ++at) {
      bearing on(table.sensor(at), unseen);
      for (size_t each = 0; each < 2 * each_kind; ++each) {
        const damage kind = each % 2 == 0   ? damage::none
                            : each % 4 == 1 ? damage::outer_race
                                            : damage::inner_race;
        int16_t* const row = &bins[rows.size() * table.features()];
        on.measure(kind, samples);
        transforms.transform(samples, {row, table.features()});
        rows.push_back({.bins = row, .machine = at});
        truth.push_back(kind != damage::none);
      }
    }
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
    std::vector<measurement> shuffled;
    for (const size_t at : order) shuffled.push_back(rows[at]);
    for (const model by : {model::sequential, model::coroutine}) {
      std::vector<uint8_t> decided(rows.size());
      classify(by, table, shuffled, decided.data());
      size_t right = 0;
      for (size_t at = 0; at < order.size(); ++at) right += decided[at] == truth[order[at]];
      const point at{table.size(), 2 * each_kind, table.features(), "scattered"};
      print(at, by, "accuracy", "of 1",
            static_cast<double>(right) / static_cast<double>(rows.size()), 0);
    }
  }

 private:
  void print(const point& at, model by, const char* metric, const char* unit, double value,
             int run) const {
    std::printf(
        R"(@row {"experiment":"gateway","model":"%s","metric":"%s","unit":"%s","value":%.6g,"run":%d,"sensors":%zu,"measurements":%zu,"features":%zu,"layout":"%s","compiler":"%s"})"
        "\n",
        std::string(name_of(by)).c_str(), metric, unit, value, run, at.sensors, at.measurements,
        at.features, at.layout.c_str(), chosen_.compiler.c_str());
  }

  const options& chosen_;
  bench::energy_counters energy_;
  std::unique_ptr<marker> markers_[2];
  flood empty_caches_;
};

}  // namespace

int main(int count, char** arguments) {
  options chosen;
  CLI::App program(
      "Compares the gateway's models: S sensors, M measurements of each, F bins, rows in order and "
      "scattered.");
  program.add_flag("--quick", chosen.quick, "fewer points, and 30 runs within 4 seconds a point");
  program.add_option("--runs", chosen.runs, "runs of each model at each point");
  program.add_option("--seconds", chosen.seconds,
                     "no run begins later at a point, beside the first; 0: no limit");
  program.add_option("--layout", chosen.layout, "only rows that lie so; without it both")
      ->check(CLI::IsMember({"ordered", "scattered"}));
  program.add_option("--compiler", chosen.compiler, "its name in the rows");
  program.add_option("--weights", chosen.weights, "trained weights, whose accuracy is measured");
  program.add_option("--gpio-chip", chosen.gpio_chip,
                     "markers for a meter outside: one line while the sequential model runs, the "
                     "next one for the other");
  program.add_option("--gpio-line", chosen.gpio_line, "the first line of the two");
  CLI11_PARSE(program, count, arguments);
  if (chosen.quick && program.count("--runs") == 0) chosen.runs = 30;
  // Emptying large caches takes longer than the measured work. The 12 points of each of two layouts
  // have 96 seconds together, and one run more at each point. That is less than three minutes.
  if (chosen.quick && program.count("--seconds") == 0) chosen.seconds = 4;
  // All corners of the thesis's ranges (table 5.2), and values between them.
  const std::vector<size_t> sensors =
      chosen.quick ? std::vector<size_t>{10, 50} : std::vector<size_t>{10, 30, 50};
  const std::vector<size_t> measurements =
      chosen.quick ? std::vector<size_t>{10, 100} : std::vector<size_t>{10, 50, 100};
  const std::vector<size_t> features = chosen.quick
                                           ? std::vector<size_t>{128, 512, 2048}
                                           : std::vector<size_t>{128, 256, 512, 1024, 1536, 2048};
  try {
    experiment runs(chosen);
    if (!chosen.weights.empty()) runs.accuracy();
    for (const std::string layout : {"ordered", "scattered"}) {
      if (!chosen.layout.empty() && layout != chosen.layout) continue;
      for (const size_t s : sensors)
        for (const size_t m : measurements)
          for (const size_t f : features) runs.measure({s, m, f, layout});
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gateway-bench: %s\n", error.what());
    return 1;
  }
}
