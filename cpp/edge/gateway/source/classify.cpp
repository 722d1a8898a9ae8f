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

// Whether most rows begin close behind the one before: then the processor's own prefetcher is better than any code. Looks at addresses only, which is cheap.
bool in_order(std::span<const measurement> measurements, size_t features) {
  const uintptr_t close = 2 * features * sizeof(int16_t) + 2 * corank::cache_line;
  size_t behind = 0;
  for (size_t at = 1; at < measurements.size(); ++at)
    behind += reinterpret_cast<uintptr_t>(measurements[at].bins) - reinterpret_cast<uintptr_t>(measurements[at - 1].bins) <= close;
  return 4 * behind >= 3 * measurements.size();
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

}  // namespace

model model_of_name(std::string_view name) {
  for (const model each : {model::sequential, model::coroutine})
    if (name == name_of(each)) return each;
  throw std::runtime_error("the model must be `sequential` or `coroutine`, not `" + std::string(name) + "`");
}

std::string_view name_of(model of) { return of == model::sequential ? "sequential" : "coroutine"; }

void classify(model by, const sensor_table& table, std::span<const measurement> measurements, uint8_t* decided) {
  if (by == model::sequential || in_order(measurements, table.features())) {
    for (const measurement& one : measurements) *decided++ = damaged(table, one);
  } else if (measurements.size() < few && table.features() <= piece) {
    ask_ahead(table, measurements, decided);
  } else {
    corank::interleave(measurements, [&table](corank::lane& here, const measurement& one) { return damaged_in_turn(here, table, one); }, decided, {.width = width});
  }
}

}  // namespace gateway
