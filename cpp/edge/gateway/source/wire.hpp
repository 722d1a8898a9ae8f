// The datagrams that sensors send: one spectrum each, with a tag that only the sensor and the
// gateway can make.
//
//   offset  bytes  little-endian
//   0       4      "CRKS"
//   4       1      version of this layout: 1
//   5       1      format of the bins: 0, i16 with 13 binary places (the thesis's, section 5.3.2)
//   6       2      F, how many bins there are: 1 to 2048
//   8       4      the sensor's number
//   12      4      sequence number within the session, from 0
//   16      8      session: when the sensor began, in microseconds since 1970;
//                  a later session replaces it
//   24      8      when the spectrum was measured, in microseconds since 1970
//   32      2 F    the bins
//   32+2F   16     tag: BLAKE2b of everything before it, keyed with the sensor's key
//
// The tag is libsodium's keyed `crypto_generichash`. A checksum would detect damage, but not a
// forged "all is sound". Each sensor's key is derived from the gateway's (`crypto_kdf`), so a
// stolen sensor can forge only its own datagrams.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gateway {

inline constexpr size_t header_bytes = 32;
inline constexpr size_t tag_bytes = 16;
inline constexpr size_t most_features = 2048;
inline constexpr size_t datagram_bytes(size_t features) {
  return header_bytes + features * sizeof(int16_t) + tag_bytes;
}
inline constexpr size_t largest_datagram = datagram_bytes(most_features);

using key = std::array<unsigned char, 32>;

// The header of a datagram.
struct header {
  uint32_t sensor = 0;
  uint32_t sequence = 0;
  uint64_t session = 0;
  uint64_t time = 0;
  uint16_t features = 0;
};

// The form of bytes as a datagram.
enum class form : uint8_t {
  whole,
  // Fewer bytes than the header, or than the header says.
  truncated,
  // More bytes than the header says.
  oversized,
  // Of another protocol, or of an unsupported version or format.
  malformed,
};

// Reads the header; `out` is valid if the form is `whole`. Reads nothing outside of `bytes`, for
// any content, and allocates nothing.
form parse(std::span<const std::byte> bytes, header& out);

// Tests whether a whole datagram's tag was made with this key. Takes the same time for every tag.
bool authentic(std::span<const std::byte> datagram, const key& of_sensor);

// Writes a datagram and its tag, `datagram_bytes(bins.size())` bytes. `of.features` is not used:
// the bins are counted.
void write(const header& of, std::span<const int16_t> bins, const key& of_sensor, std::byte* out);

// Renews the tag of a datagram with any content. Needs at least `header_bytes + tag_bytes` bytes.
void sign(std::span<std::byte> datagram, const key& of_sensor);

// Derives the key of one sensor from the gateway's.
key key_of_sensor(const key& of_gateway, uint32_t sensor);

// Parses 64 hexadecimal digits, with blanks and line ends around them only. Throws
// std::runtime_error.
key key_of_text(std::string_view text);

// Reads a key from a file; the error names the file.
key read_key(const std::string& file);

}  // namespace gateway
