// The form of datagrams, and their tags.
#include "made.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

using namespace gateway;
using test::datagram;
using test::secret;

namespace {

using bytes = std::vector<std::byte>;

form form_of(const bytes& of) {
  header head;
  return parse(of, head);
}

// Copies the bytes into memory of their own size, so that AddressSanitizer detects each byte too
// far.
bytes first(const bytes& of, size_t count) {
  return {of.begin(), of.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

TEST(Wire, WhatIsWrittenIsRead) {
  const bytes made = datagram(7, 0x01020304, {-32768, 0, 32767}, 0x0a0b0c0d0e0f);
  ASSERT_EQ(made.size(), datagram_bytes(3));
  header head;
  ASSERT_EQ(parse(made, head), form::whole);
  EXPECT_EQ(head.sensor, 7u);
  EXPECT_EQ(head.sequence, 0x01020304u);
  EXPECT_EQ(head.session, 0x0a0b0c0d0e0fu);
  EXPECT_EQ(head.time, 1000u + 0x01020304u);
  EXPECT_EQ(head.features, 3u);
  EXPECT_TRUE(authentic(made, key_of_sensor(secret, 7)));
  EXPECT_FALSE(authentic(made, key_of_sensor(secret, 8)));
}

// The layout of the header in wire.hpp, byte by byte. Sensors of other makers rely on it.
TEST(Wire, LayoutIsAsDocumented) {
  const bytes made = datagram(0x11121314, 0x21222324, {0x3132, -2}, 0x4142434445464748);
  const unsigned char expected[] = {'C',  'R',  'K',  'S',  1,    0,    2,    0,
                                    0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21,
                                    0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41};
  EXPECT_EQ(std::memcmp(made.data(), expected, sizeof(expected)), 0);
  const unsigned char bins[] = {0x32, 0x31, 0xfe, 0xff};
  EXPECT_EQ(std::memcmp(made.data() + 32, bins, sizeof(bins)), 0);
  EXPECT_EQ(made.size(), 32u + 4 + 16);
}

TEST(Wire, EveryShorterOneIsTruncatedAndEveryLongerOneOversized) {
  bytes made = datagram(1, 0, std::vector<int16_t>(20, 5));
  for (size_t size = 0; size < made.size(); ++size)
    EXPECT_EQ(form_of(first(made, size)), form::truncated) << size;
  EXPECT_EQ(form_of(made), form::whole);
  for (int more = 0; more < 100; ++more) {
    made.push_back({});
    EXPECT_EQ(form_of(made), form::oversized);
  }
}

TEST(Wire, OtherProtocolsVersionsAndFormatsAreMalformed) {
  const bytes made = datagram(1, 0, {1, 2, 3});
  for (const size_t at : {0, 1, 2, 3, 4, 5}) {
    bytes other = made;
    other[at] ^= std::byte{1};
    EXPECT_EQ(form_of(other), form::malformed) << at;
  }
  bytes without_bins = made, too_many = made;
  without_bins[6] = std::byte{0};
  EXPECT_EQ(form_of(without_bins), form::malformed);
  too_many[6] = std::byte{0x01};
  too_many[7] = std::byte{0x08};
  EXPECT_EQ(form_of(too_many), form::malformed);
}

TEST(Wire, OneBitChangedAnywhereIsFound) {
  const bytes made = datagram(3, 9, {1, 2, 3, 4});
  const key of_sensor = key_of_sensor(secret, 3);
  for (size_t bit = 0; bit < 8 * made.size(); ++bit) {
    bytes other = made;
    other[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(authentic(other, of_sensor)) << bit;
  }
}

TEST(Wire, KeysAreHexadecimal) {
  const std::string digits(64, 'a');
  EXPECT_EQ(key_of_text(digits), key_of_text("  " + digits + "\r\n"));
  for (const std::string& wrong :
       {std::string(), std::string(" \n"), std::string(63, 'a'), std::string(62, 'a'),
        std::string(66, 'a'), digits.substr(1) + "g", digits + " b"})
    EXPECT_THROW(key_of_text(wrong), std::runtime_error) << wrong;
  EXPECT_NE(key_of_sensor(secret, 1), key_of_sensor(secret, 2));
}

TEST(Wire, AKeyFileThatIsNotOneIsNamed) {
  const std::string file = testing::TempDir() + "gateway-tests-key-" + std::to_string(getpid());
  try {
    read_key(file);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
  }
  std::ofstream(file) << "too short\n";
  EXPECT_THROW(read_key(file), std::runtime_error);
  std::filesystem::remove(file);
}
