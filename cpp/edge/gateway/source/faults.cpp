#include "faults.hpp"

#include <charconv>
#include <stdexcept>
#include <utility>

namespace gateway {
namespace {

constexpr std::string_view names[fault_kinds] = {"lost",      "late",      "duplicated",
                                                 "truncated", "oversized", "forged"};

}  // namespace

std::string_view name_of(fault of) { return names[static_cast<size_t>(of)]; }

fault_rule fault_of_text(std::string_view text) {
  const size_t mark = text.find('=');
  for (size_t at = 0; at < fault_kinds && mark != text.npos; ++at) {
    uint32_t every = 0;
    const auto [end, error] =
        std::from_chars(text.data() + mark + 1, text.data() + text.size(), every);
    // A datagram that is held back needs a next one without a fault, which overtakes it.
    if (text.substr(0, mark) == names[at] && error == std::errc() &&
        end == text.data() + text.size() && every >= 2)
      return {static_cast<fault>(at), every};
  }
  throw std::runtime_error(
      "a fault is lost, late, duplicated, truncated, oversized or forged, `=`, and every how many "
      "datagrams, 2 or more: `lost=20`, not `" +
      std::string(text) + "`");
}

std::optional<fault> disturber::next_fault() const {
  for (const fault_rule& each : rules_)
    if (sent_ % each.every == 0) return each.kind;
  return std::nullopt;
}

std::vector<bytes> disturber::send(const bytes& datagram) {
  ++sent_;
  const std::optional<fault> kind = next_fault();
  if (kind && kind != fault::late) ++counts_[static_cast<size_t>(*kind)];
  std::vector<bytes> out;
  if (kind == fault::lost) return out;
  if (kind == fault::late) {
    held_back_.push_back(datagram);
    return out;
  }
  out.push_back(datagram);
  if (kind == fault::truncated) out[0].resize(datagram.size() - 5);
  if (kind == fault::oversized) out[0].resize(datagram.size() + 3);
  if (kind == fault::truncated || kind == fault::oversized) return out;
  if (kind == fault::duplicated) out.push_back(datagram);
  if (kind == fault::forged) {
    // Imitates an attack with recorded datagrams: one from the future.
    out.push_back(datagram);
    out[1][15] ^= std::byte{0x40};
  }
  // The receiver accepts this one, so the datagrams that were held back are late now.
  counts_[static_cast<size_t>(fault::late)] += held_back_.size();
  for (bytes& late : std::exchange(held_back_, {})) out.push_back(std::move(late));
  return out;
}

std::vector<bytes> disturber::end() { return std::exchange(held_back_, {}); }

}  // namespace gateway
