// Any bytes as datagrams. The first byte of an input defines where datagrams end and which of them
// get a valid tag, so that the code behind the check of the tag is also reached.
#include "made.hpp"

#include <cstdint>
#include <cstdlib>

using namespace gateway;

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  roster of(test::table(3, 4), test::secret,
            {.by = model::coroutine,
             .window = 2,
             .alarm_after = 1,
             .silent_after = std::chrono::seconds(1)},
            {});
  uint64_t given = 0, reported = 0;
  const uint8_t* const end = data + size;
  while (end - data >= 2) {
    const bool with_tag = data[0] & 1, judge = data[0] & 2;
    const size_t length = std::min<size_t>(data[1], static_cast<size_t>(end - data - 2));
    const auto* const from = reinterpret_cast<const std::byte*>(data + 2);
    std::vector<std::byte> bytes(from, from + length);
    header head;
    if (with_tag && parse(bytes, head) == form::whole)
      sign(bytes, key_of_sensor(test::secret, head.sensor));
    const fate became = test::give(of, bytes, instant{} + std::chrono::milliseconds(given));
    if (became == fate::accepted || became == fate::late)
      must(with_tag || authentic(bytes, key_of_sensor(test::secret, head.sensor)));
    ++given;
    if (judge)
      for (const report& each : of.evaluate()) {
        must(each.measurements == 2 && each.damaged <= each.measurements);
        reported += each.measurements;
      }
    data += 2 + length;
  }
  const totals all = of.count();
  uint64_t sum = 0;
  for (const uint64_t each : all.datagrams) sum += each;
  must(sum == given);
  must(all.measurements == reported && reported <= all.of(fate::accepted) + all.of(fate::late));
  return 0;
}
