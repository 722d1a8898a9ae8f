#include "classify.hpp"

#include <corank/interleave.hpp>

#include <algorithm>
#include <ranges>
#include <stdexcept>

namespace gateway {
namespace {

// The bins of a row that a strand prefetches at a time: as many lines as one prefetch fetches. The
// rest lies in other pages, which a processor's prefetcher does not enter.
constexpr size_t piece = corank::most_lines * corank::cache_line / sizeof(int16_t);

// Enough to hide the latency of a row of 128 bins, the shortest of the thesis. More strands gain
// nothing; see docs/gateway.md.
constexpr size_t width = 16;

// With fewer short rows, strands gain nothing over a loop with prefetching: fetching their code and
// frames into cold caches takes some microseconds.
constexpr size_t few = 1024;
// The number of rows by which the loop of the coroutine model prefetches ahead.
constexpr size_t ahead = 8;

// After this number of scattered rows, the loop checks whether the next ones lie in order.
constexpr size_t check_again = 2048;

int32_t products(const int16_t* bins, const int16_t* weights, size_t count) {
  int32_t sum = 0;
  for (size_t at = 0; at < count; ++at) sum += int32_t{bins[at]} * weights[at];
  return sum;
}

bool damaged(const sensor_table& table, const measurement& one) {
  return products(one.bins, table.weights(one.machine), table.features()) >
         table.threshold(one.machine);
}

corank::strand<uint8_t> damaged_in_turn(corank::lane&, const sensor_table& table,
                                        const measurement& one) {
  const int16_t* const weights = table.weights(one.machine);
  int32_t sum = 0;
  for (size_t at = 0; at < table.features(); at += piece) {
    const size_t count = std::min(piece, table.features() - at);
    co_await corank::prefetch(one.bins + at, count * sizeof(int16_t));
    sum += products(one.bins + at, weights + at, count);
  }
  co_return sum > table.threshold(one.machine);
}

void one_by_one(const sensor_table& table, std::span<const measurement> measurements,
                uint8_t* decided) {
  for (size_t at = 0; at < measurements.size(); ++at)
    decided[at] = damaged(table, measurements[at]);
}

// Classifies one by one from row `at` on, with prefetching, and returns the index behind the last
// classified row. It prefetches the weights of the next sensor, which the processor cannot predict.
// If fewer than three of four rows begin close behind the one before, it prefetches few and short
// rows too, and leaves others to strands. For rows in order, the processor's own prefetcher is
// better than any code. A check of all addresses beforehand would be a pass over memory of its own.
size_t looking_ahead(const sensor_table& table, std::span<const measurement> measurements,
                     size_t at, uint8_t* decided) {
  constexpr int astray_at_most = 9;
  const size_t bytes = table.features() * sizeof(int16_t), size = measurements.size();
  const uintptr_t close = 2 * bytes + 2 * corank::cache_line;
  const bool strands = size - at >= few || table.features() > piece;
  // The rows that have been checked, and the machine whose weights were prefetched last.
  size_t seen = at, asked_for = ~size_t{0};
  for (int astray = 0; at < size;) {
    const bool scattered = astray > astray_at_most;
    if (scattered && strands) break;
    for (; seen < std::min(at + ahead, size); ++seen) {
      const measurement& later = measurements[seen];
      if (later.machine != asked_for)
        corank::prefetch_now(table.weights(asked_for = later.machine), bytes);
      if (scattered) corank::prefetch_now(later.bins, bytes);
    }
    const measurement& one = measurements[at];
    decided[at++] = damaged(table, one);
    if (at<size&& reinterpret_cast<uintptr_t>(measurements[at].bins) -
           reinterpret_cast<uintptr_t>(one.bins)>
            close) {
      astray = std::min(astray + 3, astray_at_most + 3);
    } else if (astray > 0) {
      --astray;
    }
  }
  return at;
}

// Classifies rows at any addresses.
void judge_scattered(const sensor_table& table, std::span<const measurement> measurements,
                     uint8_t* decided) {
  corank::interleave(measurements,
                     [&table](corank::lane& here, const measurement& one) {
                       return damaged_in_turn(here, table, one);
                     },
                     decided, {.width = width});
}

}  // namespace

model model_of_name(std::string_view name) {
  for (const model each : {model::sequential, model::coroutine})
    if (name == name_of(each)) return each;
  throw std::runtime_error("the model must be `sequential` or `coroutine`, not `" +
                           std::string(name) + "`");
}

std::string_view name_of(model of) { return of == model::sequential ? "sequential" : "coroutine"; }

void classify(model by, const sensor_table& table, std::span<const measurement> measurements,
              uint8_t* decided) {
  if (by == model::sequential) return one_by_one(table, measurements, decided);
  for (size_t at = 0; at < measurements.size();) {
    at = looking_ahead(table, measurements, at, decided);
    const auto scattered =
        measurements.subspan(at, std::min(check_again, measurements.size() - at));
    if (!scattered.empty()) judge_scattered(table, scattered, decided + at);
    at += scattered.size();
  }
}

}  // namespace gateway
