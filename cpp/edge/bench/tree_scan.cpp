// B+ tree: all leaves are visited, and their values summed up (thesis, section 4.3.2).
#include "measure.hpp"
#include "protothread.hpp"
#include "vectorised.hpp"

#include <corank/interleave/btree.hpp>

#include <memory>

namespace bench {
namespace {

template <size_t LeafBytes>
using tree = corank::btree<uint32_t, uint32_t, LeafBytes>;

constexpr auto add = [](uint64_t sum, uint32_t, uint32_t value) { return sum + value; };

template <size_t LeafBytes>
struct models {
  using part = typename tree<LeafBytes>::part;
  using leaf = decltype(part::first);

  const tree<LeafBytes>& of;

  static uint64_t step(leaf in, uint64_t sum) { return tree<LeafBytes>::fold_leaf(*in, sum, add); }

  [[nodiscard]] part whole() const { return {of.parts()[0].first, nullptr}; }

  // The library's own plain form, so that both run the same machine code. Otherwise the compiler's
  // result for two copies would decide.
  [[nodiscard]] uint64_t sequential(const part& leaves) const {
    return tree<LeafBytes>::fold_part(leaves, uint64_t{0}, add);
  }

  [[nodiscard]] uint64_t sequential_prefetch() const {
    uint64_t sum = 0;
    for (leaf in = whole().first; in != nullptr; in = in->next) {
      corank::prefetch_now(in->next, LeafBytes);
      sum = step(in, sum);
    }
    return sum;
  }

  template <bool Prefetch>
  static corank::strand<uint64_t> sum_in_turn(corank::lane&, part leaves) {
    uint64_t sum = 0;
    for (leaf in = leaves.first; in != leaves.behind; in = in->next) {
      if constexpr (Prefetch)
        co_await corank::prefetch(in, LeafBytes);
      else
        co_await corank::turn{};
      sum = step(in, sum);
    }
    co_return sum;
  }

  template <bool Prefetch>
  [[nodiscard]] uint64_t coroutine(size_t width) const {
    uint64_t sum = 0;
    for (const uint64_t each :
         corank::interleave(of.parts(), sum_in_turn<Prefetch>, {.width = width}))
      sum += each;
    return sum;
  }

  [[nodiscard]] uint64_t automatic() const { return of.fold(uint64_t{0}, add, std::plus<>{}); }

  struct thread {
    int line;
    leaf in, behind;
    uint64_t sum;
  };
  static bool go_on(thread& self) {
    PT_BEGIN(self);
    for (; self.in != self.behind; self.in = self.in->next) {
      corank::prefetch_now(self.in, LeafBytes);
      PT_YIELD(self);
      self.sum = step(self.in, self.sum);
    }
    PT_END(self);
  }
  [[nodiscard]] uint64_t protothreads(size_t width) const {
    const std::vector<part> parts = of.parts();
    size_t next = 0;
    uint64_t total = 0;
    run_protothreads<thread>(
        width,
        [&](thread& self) {
          total += self.sum;
          self.sum = 0;
          if (next == parts.size()) return false;
          self = {0, parts[next].first, parts[next].behind, 0};
          ++next;
          return true;
        },
        go_on);
    return total;
  }

  // Follows several chains at once, written by hand. An array contains the position in each
  // (asynchronous memory access chaining).
  [[nodiscard]] uint64_t by_hand(size_t width) const {
    const std::vector<part> parts = of.parts();
    part at[corank::most_lanes];
    size_t next = 0, living = 0;
    uint64_t sum = 0;
    const auto begin = [&](part& place) {
      if (next == parts.size()) return false;
      place = parts[next++];
      corank::prefetch_now(place.first, LeafBytes);
      return true;
    };
    while (living < width && begin(at[living])) ++living;
    while (living > 0)
      for (size_t each = 0; each < living; ++each) {
        sum = step(at[each].first, sum);
        at[each].first = at[each].first->next;
        if (at[each].first != at[each].behind) {
          corank::prefetch_now(at[each].first, LeafBytes);
        } else if (!begin(at[each])) {
          at[each--] = at[--living];
        }
      }
    return sum;
  }

  [[nodiscard]] uint64_t threads(second_thread& other) const {
    const std::vector<part> parts = of.parts();
    const leaf middle = parts[parts.size() / 2].first;
    uint64_t left = 0, right = 0;
    other.both([&] { left = sequential({parts[0].first, parts.size() > 1 ? middle : nullptr}); },
               [&] { right = parts.size() > 1 ? sequential({middle, nullptr}) : 0; });
    return left + right;
  }
};

template <size_t LeafBytes>
void scan(size_t bytes, const std::string& layout) {
  static_assert(sizeof(raw_leaf<LeafBytes>) <= LeafBytes &&
                raw_leaf<LeafBytes>::room == tree<LeafBytes>::keys_per_leaf());
  const point measured{"btree-scan", "i32", layout, bytes, LeafBytes, 0};
  if (spent(measured)) return;
  const size_t leaves = bytes / LeafBytes;
  tree<LeafBytes> of;
  {
    std::vector<std::pair<uint32_t, uint32_t>> pairs(leaves * tree<LeafBytes>::keys_per_leaf());
    for (size_t at = 0; at < pairs.size(); ++at)
      pairs[at] = {static_cast<uint32_t>(at), static_cast<uint32_t>(mix(at, 1) >> 40)};
    const std::vector<uint32_t> places = scattered(leaves);
    of.fill(pairs, [&](size_t at) { return layout == "scattered" ? places[at] : at; });
  }
  const models<LeafBytes> run{of};
  second_thread other;
  uint64_t sum = 0;
  std::vector<model> all{
      {"sequential", [&] { sum = run.sequential(run.whole()); }},
      {"auto", [&] { sum = run.automatic(); }},
      {"sequential-prefetch", [&] { sum = run.sequential_prefetch(); }},
      {"vectorised", [&] { sum = vectorised_scan<LeafBytes>(run.whole().first); }},
      {"threads-2", [&] { sum = run.threads(other); }},
  };
  for (const size_t width : widths()) {
    if (without_prefetch(width))
      all.push_back(
          {"coroutine", [&, width] { sum = run.template coroutine<false>(width); }, width});
    all.push_back(
        {"coroutine-prefetch", [&, width] { sum = run.template coroutine<true>(width); }, width});
    all.push_back({"protothreads", [&, width] { sum = run.protothreads(width); }, width});
    all.push_back({"hand-interleaved", [&, width] { sum = run.by_hand(width); }, width});
  }
  compare(measured, all, [&] { return std::exchange(sum, 0); });
}

}  // namespace

void tree_scan() {
  if (!wanted(chosen.algorithms, "btree-scan") || !wanted(chosen.types, "i32")) return;
  for (const size_t bytes : sizes())
    for (const std::string layout : {"ordered", "scattered"}) {
      scan<64>(bytes, layout);
      scan<256>(bytes, layout);
      if (!chosen.quick) scan<1024>(bytes, layout);
    }
}

}  // namespace bench
