#include "wire.hpp"

#include <sodium.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace gateway {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the datagrams' numbers are little-endian, and are copied as they are");

constexpr char magic[4] = {'C', 'R', 'K', 'S'};
constexpr uint8_t version = 1, fixed_point_16 = 0;

template <class Number>
Number number_at(std::span<const std::byte> bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

template <class Number>
void put(std::byte* bytes, size_t offset, Number number) {
  std::memcpy(bytes + offset, &number, sizeof(number));
}

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

// Starts libsodium, which chooses its code for this processor once. May be called any number of
// times, from any thread.
void begin_sodium() {
  static const bool ready = sodium_init() >= 0;
  if (!ready)
    throw std::runtime_error("libsodium can't be initialised: the system gives no random numbers");
}

void make_tag(std::span<const std::byte> signed_part, const key& with, unsigned char* tag) {
  begin_sodium();
  crypto_generichash(tag, tag_bytes, raw(signed_part.data()), signed_part.size(), with.data(),
                     with.size());
}

}  // namespace

form parse(std::span<const std::byte> bytes, header& out) {
  if (bytes.size() < datagram_bytes(1)) return form::truncated;
  const auto features = number_at<uint16_t>(bytes, 6);
  if (std::memcmp(bytes.data(), magic, sizeof(magic)) != 0 ||
      number_at<uint8_t>(bytes, 4) != version || number_at<uint8_t>(bytes, 5) != fixed_point_16 ||
      features == 0 || features > most_features)
    return form::malformed;
  if (bytes.size() != datagram_bytes(features))
    return bytes.size() < datagram_bytes(features) ? form::truncated : form::oversized;
  out = {.sensor = number_at<uint32_t>(bytes, 8),
         .sequence = number_at<uint32_t>(bytes, 12),
         .session = number_at<uint64_t>(bytes, 16),
         .time = number_at<uint64_t>(bytes, 24),
         .features = features};
  return form::whole;
}

bool authentic(std::span<const std::byte> datagram, const key& of_sensor) {
  unsigned char expected[tag_bytes];
  make_tag(datagram.first(datagram.size() - tag_bytes), of_sensor, expected);
  return sodium_memcmp(expected, datagram.last(tag_bytes).data(), tag_bytes) == 0;
}

void write(const header& of, std::span<const int16_t> bins, const key& of_sensor, std::byte* out) {
  std::memcpy(out, magic, sizeof(magic));
  put(out, 4, version);
  put(out, 5, fixed_point_16);
  put(out, 6, static_cast<uint16_t>(bins.size()));
  put(out, 8, of.sensor);
  put(out, 12, of.sequence);
  put(out, 16, of.session);
  put(out, 24, of.time);
  std::memcpy(out + header_bytes, bins.data(), bins.size_bytes());
  sign({out, datagram_bytes(bins.size())}, of_sensor);
}

void sign(std::span<std::byte> datagram, const key& of_sensor) {
  make_tag(datagram.first(datagram.size() - tag_bytes), of_sensor,
           reinterpret_cast<unsigned char*>(datagram.last(tag_bytes).data()));
}

key key_of_sensor(const key& of_gateway, uint32_t sensor) {
  begin_sodium();
  static_assert(sizeof(key) == crypto_kdf_KEYBYTES);
  key derived;
  crypto_kdf_derive_from_key(derived.data(), derived.size(), sensor, "crksens1", of_gateway.data());
  return derived;
}

key key_of_text(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const size_t first = text.find_first_not_of(blanks);
  const std::string_view digits =
      first == text.npos ? "" : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
  key found;
  size_t length = 0;
  const char* end = nullptr;
  const bool read = sodium_hex2bin(found.data(), found.size(), digits.data(), digits.size(),
                                   nullptr, &length, &end) == 0;
  if (!read || length != found.size() || end != digits.data() + digits.size())
    throw std::runtime_error("a key is 64 hexadecimal digits; `openssl rand -hex 32` makes one");
  return found;
}

key read_key(const std::string& file) {
  std::ifstream in(file);
  if (!in)
    throw std::runtime_error(file + ": the key can't be read; `openssl rand -hex 32 > " + file +
                             "` makes one");
  try {
    return key_of_text(std::string(std::istreambuf_iterator<char>(in), {}));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
}

}  // namespace gateway
