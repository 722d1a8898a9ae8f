#include "classify.hpp"

#include <corank/interleave.hpp>

#include <algorithm>
#include <ranges>
#include <stdexcept>

namespace gateway {
namespace {

// A strand asks for so many bins of a row at a time: as many lines as one prefetch asks for. What lies behind is in other pages, where no processor's prefetcher goes
// by itself.
constexpr size_t piece = corank::most_lines * corank::cache_line / sizeof(int16_t);

// Enough to hide the latency of a row of 128 bins, the shortest of the thesis; more gain nothing, see docs/gateway.md.
constexpr size_t width = 16;

// A batch of fewer rows takes about as long as it takes to fetch the interleaver's own code and frames into cold caches: some microseconds.
constexpr size_t few = 256;
// There a loop asks so many rows ahead.
constexpr size_t ahead = 8;

// After so many scattered rows it is seen whether those behind them lie in order.
constexpr size_t look_again = 2048;

int32_t products(const int16_t* bins, const int16_t* weights, size_t count) {
  int32_t sum = 0;
  for (size_t at = 0; at < count; ++at) sum += int32_t{bins[at]} * weights[at];
  return sum;
}

bool damaged(const sensor_table& table, const measurement& one) {
  return products(one.bins, table.weights(one.machine), table.features()) > table.threshold(one.machine);
}

corank::strand<uint8_t> damaged_in_turn(corank::lane&, const sensor_table& table, const measurement& one) {
  const int16_t* const weights = table.weights(one.machine);
  int32_t sum = 0;
  for (size_t at = 0; at < table.features(); at += piece) {
    const size_t count = std::min(piece, table.features() - at);
    co_await corank::prefetch(one.bins + at, count * sizeof(int16_t));
    sum += products(one.bins + at, weights + at, count);
  }
  co_return sum > table.threshold(one.machine);
}

// The plain loop, from row `at` on; returns behind the last row that it has judged. With `WhileInOrder` it leaves where fewer than three of four rows begin close
// behind the one before: until there the processor's own prefetcher is better than any code. It looks at addresses on its way, as a look at all of them beforehand
// would be a pass over memory of its own.
template <bool WhileInOrder>
size_t one_by_one(const sensor_table& table, std::span<const measurement> measurements, size_t at, uint8_t* decided) {
  constexpr int astray_at_most = 9;
  const uintptr_t close = 2 * table.features() * sizeof(int16_t) + 2 * corank::cache_line;
  for (int astray = 0; at < measurements.size();) {
    const measurement& one = measurements[at];
    decided[at++] = damaged(table, one);
    if constexpr (WhileInOrder) {
      if (at < measurements.size() && reinterpret_cast<uintptr_t>(measurements[at].bins) - reinterpret_cast<uintptr_t>(one.bins) > close) {
        if ((astray += 3) > astray_at_most) break;
      } else if (astray > 0) {
        --astray;
      }
    }
  }
  return at;
}

// What needs no strands: short rows, each of which is asked for whole while those before it are judged.
void ask_ahead(const sensor_table& table, std::span<const measurement> measurements, uint8_t* decided) {
  const auto ask = [&](size_t at) { corank::prefetch_now(measurements[at].bins, table.features() * sizeof(int16_t)); };
  for (size_t at = 0; at < std::min(ahead, measurements.size()); ++at) ask(at);
  for (size_t at = 0; at < measurements.size(); ++at) {
    if (at + ahead < measurements.size()) ask(at + ahead);
    decided[at] = damaged(table, measurements[at]);
  }
}

// Rows that lie anywhere.
void judge_scattered(const sensor_table& table, std::span<const measurement> measurements, uint8_t* decided) {
  if (measurements.size() < few && table.features() <= piece) {
    ask_ahead(table, measurements, decided);
  } else {
    corank::interleave(measurements, [&table](corank::lane& here, const measurement& one) { return damaged_in_turn(here, table, one); }, decided, {.width = width});
  }
}

}  // namespace

model model_of_name(std::string_view name) {
  for (const model each : {model::sequential, model::coroutine})
    if (name == name_of(each)) return each;
  throw std::runtime_error("the model must be `sequential` or `coroutine`, not `" + std::string(name) + "`");
}

std::string_view name_of(model of) { return of == model::sequential ? "sequential" : "coroutine"; }

void classify(model by, const sensor_table& table, std::span<const measurement> measurements, uint8_t* decided) {
  if (by == model::sequential) {
    one_by_one<false>(table, measurements, 0, decided);
    return;
  }
  for (size_t at = 0; at < measurements.size();) {
    at = one_by_one<true>(table, measurements, at, decided);
    if (at == measurements.size()) break;
    const auto scattered = measurements.subspan(at, std::min(look_again, measurements.size() - at));
    judge_scattered(table, scattered, decided + at);
    at += scattered.size();
  }
}

}  // namespace gateway
