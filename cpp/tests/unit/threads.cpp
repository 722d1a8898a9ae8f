// Wakes from other threads, which take the role of interrupt handlers on the host. Each arrives
// exactly once.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "test.hpp"

using corank::executor;
using corank::priority;
using test::storage;

namespace {

constexpr int threads_count = 3;
constexpr int rounds = 2000;

corank::semaphore posts{0};
corank::channel<int, 4> numbers;
corank::split_phase_event<int> conversion;

corank::task<> takes(storage, int count, int& taken) {
  for (; count > 0; --count) {
    auto permit = co_await posts.acquire();
    permit.forget();
    ++taken;
  }
}

corank::task<> sums(storage, int count, long& sum) {
  while (count-- > 0) sum += co_await numbers.receive();
}

corank::task<> converts(storage, int count, std::atomic<int>& started, long& sum) {
  while (count-- > 0) sum += co_await conversion.after([&] { started.fetch_add(1); });
}

corank::task<> busy(storage, const bool& stop) {
  while (!stop) co_await corank::yield_now{};
}

// Runs until `done` returns true, and sleeps while no coroutine is ready.
template <class Done>
void run_until(Done done) {
  for (;;) {
    executor.run_until_idle();
    if (done()) return;
    executor.sleep();
  }
}

}  // namespace

TEST(threads, every_post_arrives_once) {
  int taken = 0;
  auto handle = spawn(priority{5}, takes({}, threads_count * rounds, taken));
  std::vector<std::thread> threads;
  for (int each = 0; each < threads_count; ++each)
    threads.emplace_back([] {
      for (int round = 0; round < rounds; ++round) posts.release();
    });
  run_until([&] { return handle->has_exited(); });
  for (auto& each : threads) each.join();
  EXPECT_EQ(taken, threads_count * rounds);
  EXPECT_EQ(posts.available(), 0u);
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(threads, every_message_arrives_once) {
  long sum = 0;
  auto handle = spawn(priority{5}, sums({}, threads_count * rounds, sum));
  std::vector<std::thread> threads;
  for (int each = 0; each < threads_count; ++each)
    threads.emplace_back([each] {
      for (int round = 0; round < rounds; ++round)
        while (!numbers.try_send(each + 1)) std::this_thread::yield();
    });
  run_until([&] { return handle->has_exited(); });
  for (auto& each : threads) each.join();
  EXPECT_EQ(sum, long{rounds} * threads_count * (threads_count + 1) / 2);
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(threads, an_operation_is_completed_from_elsewhere) {
  long sum = 0;
  std::atomic<int> started{0};
  auto handle = spawn(priority{5}, converts({}, rounds, started, sum));
  std::thread device([&] {
    for (int round = 0; round < rounds; ++round) {
      while (started.load() <= round) std::this_thread::yield();
      conversion.complete(round);
    }
  });
  run_until([&] { return handle->has_exited(); });
  device.join();
  EXPECT_EQ(sum, long{rounds} * (rounds - 1) / 2);
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(threads, wakes_reach_a_busy_scheduler) {
  int taken = 0;
  bool stop = false;
  auto handle = spawn(priority{5}, takes({}, rounds, taken));
  auto noise = spawn(priority{5}, busy({}, stop));
  std::thread waker([] {
    for (int round = 0; round < rounds; ++round) posts.release();
  });
  while (!handle->has_exited()) (void)executor.step_once();
  waker.join();
  EXPECT_EQ(taken, rounds);
  stop = true;
  executor.run_until_idle();
  handle->detach();
  noise->detach();
  EXPECT_ALL_FREE();
}
