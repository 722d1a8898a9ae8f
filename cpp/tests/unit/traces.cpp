// Every conformance trace, one test each.
#include <gtest/gtest.h>

#include <string>

#include "../traces/replay.hpp"

namespace {

const replay::embedded_trace traces[] = {
#include "traces.inc"
};

class trace : public testing::TestWithParam<replay::embedded_trace> {};

TEST_P(trace, replays) {
  const replay::report report = replay::run(GetParam());
  // The library has no demotion, and skips no other trace on the host.
  const bool is_skipped = std::string(GetParam().name).rfind("demotion-", 0) == 0;
  EXPECT_TRUE(report.what == (is_skipped ? replay::outcome::skipped : replay::outcome::passed))
      << "spec/traces/" << GetParam().name << ".trace:" << report.line << ": " << report.message;
}

INSTANTIATE_TEST_SUITE_P(spec, trace, testing::ValuesIn(traces),
                         [](const testing::TestParamInfo<replay::embedded_trace>& of) {
                           std::string name = of.param.name;
                           for (char& each : name)
                             if (each == '-') each = '_';
                           return name;
                         });

}  // namespace
