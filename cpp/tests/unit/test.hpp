// The tests' framework: GoogleTest on the host, and the few of its macros that the tests use on the
// target.
#pragma once

#include <corank/corank.hpp>

#if defined(CORANK_TARGET_TESTS)

namespace test {

struct one {
  const char* suite;
  const char* name;
  void (*run)();
  one* next;
  one(const char* suite_name, const char* test_name, void (*body)());
};

// Prints the condition that failed, and continues.
void failed(const char* file, int line, const char* what);
// Runs every test. Returns the number of failed ones.
int run_all();

}  // namespace test

#define TEST(suite, name)                                               \
  static void suite##_##name();                                         \
  static test::one suite##_##name##_one(#suite, #name, suite##_##name); \
  static void suite##_##name()
#define EXPECT_TRUE(...)                                                \
  do {                                                                  \
    if (!(__VA_ARGS__)) test::failed(__FILE__, __LINE__, #__VA_ARGS__); \
  } while (false)
#define EXPECT_FALSE(...) EXPECT_TRUE(!(__VA_ARGS__))
#define EXPECT_EQ(a, b) EXPECT_TRUE((a) == (b))
#define EXPECT_NE(a, b) EXPECT_TRUE((a) != (b))
#define ASSERT_TRUE(...)                                                       \
  do {                                                                         \
    if (!(__VA_ARGS__)) return test::failed(__FILE__, __LINE__, #__VA_ARGS__); \
  } while (false)
#define EXPECT_LOG(text) EXPECT_TRUE(test::logged(text))

#else

#include <gtest/gtest.h>
#define EXPECT_LOG(text) EXPECT_EQ(test::take_log(), std::string(text))

#endif

namespace test {

// The actions of a test's coroutines, in order: one letter each.
inline char log_text[128];
inline size_t log_length = 0;

inline void log(char what) {
  if (log_length + 1 < sizeof(log_text)) log_text[log_length++] = what;
}

// Tests whether the log is exactly this text, and empties it.
inline bool logged(const char* expected) {
  bool same = true;
  for (size_t at = 0; at < log_length || expected[at] != 0; ++at)
    if (at >= log_length || expected[at] != log_text[at]) {
      same = false;
      break;
    }
  log_length = 0;
  return same;
}

#if !defined(CORANK_TARGET_TESTS)
inline std::string take_log() {
  std::string text(log_text, log_length);
  log_length = 0;
  return text;
}
#endif

// Room for the frames of a test, on either machine.
inline corank::pool<56 * sizeof(void*), 8> frames;
using storage = corank::in<frames>;

// Logs its name when it is destroyed.
struct guard {
  explicit guard(char name) : what(name) {}
  guard(guard&& other) noexcept : what(corank::detail::exchange(other.what, '\0')) {}
  ~guard() {
    if (what != 0) log(what);
  }
  char what;
};

// Tests that the scheduler is as before the test.
#define EXPECT_ALL_FREE()                          \
  do {                                             \
    EXPECT_EQ(corank::executor.live(), 0u);        \
    EXPECT_EQ(test::frames.free(), 8u);            \
    EXPECT_TRUE(corank::executor.ready().empty()); \
  } while (false)

}  // namespace test
