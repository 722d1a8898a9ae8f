// Whole lines, whatever happens between two writes.
#include "lines.hpp"

#include "program.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

using namespace gateway;

namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Limits the size of the files of this process, as a full disk does.
class file_limit {
 public:
  explicit file_limit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~file_limit() { setrlimit(RLIMIT_FSIZE, &before_); }
  file_limit(const file_limit&) = delete;
  file_limit& operator=(const file_limit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST(Lines, AfterAFullDiskNoLineIsHalf) {
  const test::folder folder;
  const std::string file = folder.file("out");
  line_output out(file);
  EXPECT_TRUE(out.write("first"));
  for (rlim_t room = 6; room < 13; ++room) {
    const file_limit full(room);
    EXPECT_FALSE(out.write("second"));
    EXPECT_EQ(text_of(file), "first\n") << room;
  }
  EXPECT_TRUE(out.write("third"));
  EXPECT_EQ(text_of(file), "first\nthird\n");
}

TEST(Lines, WhatOthersHaveWrittenStays) {
  const test::folder folder;
  const std::string file = folder.file("out");
  line_output out(file), other(file);
  EXPECT_TRUE(out.write("first"));
  {
    const file_limit full(9);
    EXPECT_FALSE(out.write("second"));
  }
  EXPECT_TRUE(other.write("third"));
  EXPECT_TRUE(out.write("fourth"));
  EXPECT_EQ(text_of(file), "first\nthird\nfourth\n");
}

// A program that is killed while it writes leaves such a file.
TEST(Lines, HalfALineIsEndedFirst) {
  const test::folder folder;
  const std::string file = folder.write("out", "whole\nhal");
  line_output out(file);
  EXPECT_TRUE(out.write("next"));
  EXPECT_TRUE(out.write("last"));
  EXPECT_EQ(text_of(file), "whole\nhal\nnext\nlast\n");
}

// No byte can be taken back from a pipe.
TEST(Lines, AFullPipeTearsOneLineAtMost) {
  int ends[2];
  checked(pipe2(ends, O_CLOEXEC | O_NONBLOCK), "making a pipe");
  const descriptor reads(ends[0]), writes(ends[1]);
  const descriptor standard(dup(STDOUT_FILENO));
  dup2(writes.get(), STDOUT_FILENO);
  line_output out("-");
  dup2(standard.get(), STDOUT_FILENO);
  const std::string line(5000, 'x');
  size_t whole = 0;
  while (out.write(line)) ++whole;
  EXPECT_FALSE(out.write(line));
  std::string all;
  char bytes[4096];
  for (ssize_t count; (count = read(reads.get(), bytes, sizeof(bytes))) > 0;)
    all.append(bytes, static_cast<size_t>(count));
  EXPECT_TRUE(out.write("end"));
  for (ssize_t count; (count = read(reads.get(), bytes, sizeof(bytes))) > 0;)
    all.append(bytes, static_cast<size_t>(count));
  EXPECT_TRUE(all.ends_with("\nend\n"));
  EXPECT_EQ(all.compare(0, line.size() + 1, line + '\n'), 0);
  EXPECT_GT(whole, 0u);
}
