// Lookups of random keys: in the B+ tree, beside absl::btree_map, and in the hash table.
#include "measure.hpp"
#include "protothread.hpp"

#include <corank/interleave/btree.hpp>
#include <corank/interleave/hash_table.hpp>

#include <absl/container/btree_map.h>

#include <memory>
#include <random>

namespace bench {
namespace {

using tree = corank::btree<uint64_t, uint64_t>;
using table = corank::hash_table<uint64_t, uint64_t>;
using found = const uint64_t*;

constexpr size_t most_lookups = 200'000;

// Returns random keys to look up. Half of them exist.
std::vector<uint64_t> keys_by_chance(size_t keys) {
  std::vector<uint64_t> wanted(std::min(most_lookups, 2 * keys));
  std::mt19937_64 chance(1);
  for (uint64_t& key : wanted) key = chance() % (2 * keys);
  return wanted;
}

// The keys and values of a pass. All models write the values into one array, as `multi_get` does.
struct batch {
  explicit batch(std::vector<uint64_t> wanted) : keys(std::move(wanted)), values(keys.size()) {}
  std::vector<uint64_t> keys;
  std::vector<found> values;

  template <class Find>
  void each(Find find) {
    part(0, keys.size(), find);
  }
  template <class Find>
  void halves(second_thread& other, Find find) {
    other.both([&] { part(0, keys.size() / 2, find); },
               [&] { part(keys.size() / 2, keys.size(), find); });
  }
  template <class Find>
  void part(size_t from, size_t to, Find find) {
    for (size_t at = from; at < to; ++at) values[at] = find(keys[at]);
  }
  template <class Work>
  void interleaved(Work work, size_t width) {
    corank::interleave(keys, work, values.begin(), {.width = width});
  }
  uint64_t result() {
    uint64_t sum = 0;
    for (found& value : values) {
      sum = mix(sum, value != nullptr ? *value : 1);
      value = &sum;
    }
    return sum;
  }
};

// The lookups of protothreads.
struct thread {
  int line = 0;
  size_t index = 0;
  tree::cursor at;
};

bool go_on(thread& self) {
  PT_BEGIN(self);
  while (self.at.descend()) PT_YIELD(self);
  PT_END(self);
}

void protothreads(const tree& in, batch& all, size_t width, size_t levels) {
  size_t next = 0;
  run_protothreads<thread>(
      width,
      [&](thread& self) {
        if (next == all.keys.size()) return false;
        self = {0, next, in.begin_at(all.keys[next], levels)};
        ++next;
        return true;
      },
      [&](thread& self) {
        if (!go_on(self)) return false;
        all.values[self.index] = self.at.value();
        return true;
      });
}

// Descends a group of lookups level by level (group prefetching). All lookups are equally deep.
void by_hand(const tree& in, batch& all, size_t width, size_t levels) {
  tree::cursor group[corank::most_lanes];
  for (size_t from = 0; from < all.keys.size(); from += width) {
    const size_t count = std::min(width, all.keys.size() - from);
    for (size_t each = 0; each < count; ++each)
      group[each] = in.begin_at(all.keys[from + each], levels);
    for (size_t level = 0; level < levels; ++level)
      for (size_t each = 0; each < count; ++each) group[each].descend();
    for (size_t each = 0; each < count; ++each) all.values[from + each] = group[each].value();
  }
}

void tree_lookups(size_t bytes) {
  const point measured{"btree-lookup", "u64", "scattered", bytes, 256, 0};
  if (spent(measured)) return;
  const size_t leaves = bytes / 256, keys = leaves * tree::keys_per_leaf();
  tree in;
  absl::btree_map<uint64_t, uint64_t> absl_map;
  {
    std::vector<std::pair<uint64_t, uint64_t>> pairs(keys);
    for (size_t at = 0; at < keys; ++at) pairs[at] = {2 * at, mix(at, 1)};
    const std::vector<uint32_t> places = scattered(leaves);
    in.fill(pairs, [&](size_t at) { return places[at]; });
    for (const auto& pair : pairs) absl_map.insert(absl_map.end(), pair);
  }
  batch all(keys_by_chance(keys));
  const auto find = [&](uint64_t key) { return in.find(key); };
  second_thread other;
  const size_t cold = in.cold_levels();
  std::vector<model> models{
      {"sequential", [&] { all.each(find); }},
      {"auto", [&] { in.multi_get(all.keys, all.values.begin()); }},
      {"sequential-prefetch",
       [&] {
         all.each([&](uint64_t key) {
           tree::cursor at = in.begin_at(key, cold);
           while (at.descend()) {
           }
           return at.value();
         });
       }},
      {"threads-2", [&] { all.halves(other, find); }},
      {"absl",
       [&] {
         all.each([&](uint64_t key) {
           const auto at = absl_map.find(key);
           return at != absl_map.end() ? &at->second : nullptr;
         });
       }},
  };
  const auto no_prefetch = [&](corank::lane&, uint64_t key) -> corank::strand<found> {
    for (size_t level = 0; level < cold; ++level) co_await corank::turn{};
    co_return in.find(key);
  };
  for (const size_t width : widths()) {
    if (without_prefetch(width))
      models.push_back({"coroutine", [&, width] { all.interleaved(no_prefetch, width); }, width});
    models.push_back({"coroutine-prefetch",
                      [&, width] { in.multi_get(all.keys, all.values.begin(), {.width = width}); },
                      width});
    models.push_back({"protothreads", [&, width] { protothreads(in, all, width, cold); }, width});
    models.push_back({"hand-interleaved", [&, width] { by_hand(in, all, width, cold); }, width});
  }
  compare(measured, models, [&] { return all.result(); });
}

void table_lookups(size_t bytes) {
  if (spent({"hash-lookup", "u64", "scattered", bytes, 0, 0})) return;
  table in;
  // The largest table of at most this size, as full as it gets before it grows.
  const size_t keys = bytes / 24 * 3 / 4;
  in.reserve(keys / 2);
  const size_t count = std::max<size_t>(in.bytes() / 24 * 5 / 8, 8);
  for (size_t at = 0; at < count; ++at) in.insert(2 * at, mix(at, 1));
  batch all(keys_by_chance(count));
  const auto find = [&](uint64_t key) { return in.find(key); };
  second_thread other;
  std::vector<model> models{
      {"sequential", [&] { all.each(find); }},
      {"auto", [&] { in.multi_find(all.keys, all.values.begin()); }},
      {"threads-2", [&] { all.halves(other, find); }},
  };
  for (const size_t width : widths())
    models.push_back({"coroutine-prefetch",
                      [&, width] { in.multi_find(all.keys, all.values.begin(), {.width = width}); },
                      width});
  compare({"hash-lookup", "u64", "scattered", in.bytes(), 0, 0}, models,
          [&] { return all.result(); });
}

}  // namespace

void lookups() {
  if (!wanted(chosen.types, "u64")) return;
  for (const size_t bytes : sizes()) {
    if (wanted(chosen.algorithms, "btree-lookup")) tree_lookups(bytes);
    if (wanted(chosen.algorithms, "hash-lookup")) table_lookups(bytes);
  }
}

}  // namespace bench
