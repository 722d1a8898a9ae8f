// The common part of the tests of containers.
#pragma once

#include <corank/interleave/options.hpp>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace test {

inline const std::vector<size_t> widths{corank::automatic, 1, 2, 7, 32};

// Inserts, removes and looks up random keys, `key()` each, in a container and in one of the
// standard library's. The results must be the same each time.
template <class Container, class Standard, class Key>
void change_both(Container& container, Standard& standard, int times, std::mt19937& chance,
                 Key key) {
  for (int time = 0; time < times; ++time) {
    const auto wanted = key();
    switch (chance() % 4) {
      case 0:
        ASSERT_EQ(container.erase(wanted), standard.erase(wanted) == 1);
        break;
      case 1: {
        const int* const found = container.find(wanted);
        const auto expected = standard.find(wanted);
        ASSERT_EQ(found != nullptr, expected != standard.end());
        if (found != nullptr) {
          ASSERT_EQ(*found, expected->second);
        }
        break;
      }
      default:
        ASSERT_EQ(container.insert(wanted, time), standard.emplace(wanted, time).second);
    }
    ASSERT_EQ(container.size(), standard.size());
  }
}

}  // namespace test
