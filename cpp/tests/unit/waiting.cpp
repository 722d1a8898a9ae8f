// Joins, locks, events, channels, keys: inheritance, grants and releases.
#include "test.hpp"

#if !defined(CORANK_TARGET_TESTS)
#include <vector>
#endif

using corank::executor;
using corank::priority;
using corank::spawn;
using test::log;
using test::storage;

namespace {

corank::task<int> seven(storage) {
  co_await corank::yield_now{};
  co_return 7;
}

corank::task<int> eight(storage) {
  auto low = spawn(priority{40}, seven({}));
  if (!low) co_return 0;
  const corank::coroutine_id id = low->id();
  auto joined = low->wait();
  auto stop = corank::time::sleep(5);
  // While this coroutine waits for both, the joined coroutine has the same level.
  auto both = corank::any(joined, stop);
  if (both.poll()) co_return 1;
  log('0' + static_cast<char>(executor.level(id)->level()));
  if (co_await both != 0) co_return 2;
  auto result = joined.take();
  co_return result ? *result + 1 : 3;
}

}  // namespace

TEST(waiting, a_join_carries_output_and_priority) {
  auto high = spawn(priority{2}, eight({}));
  executor.run_until_idle();
  EXPECT_LOG("2");
  ASSERT_TRUE(high->has_exited());
  EXPECT_EQ(*high->take(), 8);
  high->detach();
  EXPECT_ALL_FREE();
  EXPECT_EQ(corank::time::next_deadline(), corank::time::never);
}

namespace {

corank::mutex<int> account{10};

corank::task<> holds(storage, char name, int rounds) {
  auto lock = co_await account.lock();
  log(name);
  while (rounds-- > 0) co_await corank::yield_now{};
  *lock += 1;
  log(name);
}

corank::task<> busy(storage, char name) {
  log(name);
  co_return;
}

}  // namespace

TEST(waiting, the_holder_of_a_lock_inherits_the_level_of_its_waiters) {
  auto low = spawn(priority{50}, holds({}, 'l', 1));
  EXPECT_EQ(executor.step_once(), corank::step::ran);
  auto high = spawn(priority{1}, holds({}, 'h', 0));
  auto middle = spawn(priority{20}, busy({}, 'm'));
  EXPECT_EQ(executor.step_once(), corank::step::ran);
  EXPECT_EQ(executor.level(low->id())->level(), 1u);
  executor.run_until_idle();
  // Without the inheritance: l m l h h.
  EXPECT_LOG("llhhm");
  EXPECT_FALSE(account.is_locked());
  low->detach();
  high->detach();
  middle->detach();
  EXPECT_ALL_FREE();
}

TEST(waiting, the_lock_of_a_cancelled_holder_goes_to_the_next_waiter) {
  auto first = spawn(priority{5}, holds({}, 'a', 1000));
  auto second = spawn(priority{5}, holds({}, 'b', 0));
  for (int step = 0; step < 4; ++step) EXPECT_EQ(executor.step_once(), corank::step::ran);
  first->cancel();
  executor.run_until_idle();
  EXPECT_LOG("abb");
  EXPECT_FALSE(account.is_locked());
  auto outside = account.try_lock();
  EXPECT_TRUE(outside.has_value());
  EXPECT_FALSE(account.try_lock().has_value());
  first->detach();
  second->detach();
  EXPECT_ALL_FREE();
}

namespace {

// Waits for the exit of two others at once, and donates to both.
corank::task<> waits_for(storage, corank::join_handle<>& one, corank::join_handle<>& other) {
  auto first = one.wait();
  auto second = other.wait();
  co_await corank::any(first, second);
}

corank::task<> logs_when_woken(storage, char name) {
  co_await corank::wait_for_wake{};
  log(name);
}

}  // namespace

// A change passes through each chain to its end before the next one. Rule I3 defines the order of
// the coroutines that it makes ready.
TEST(waiting, urgency_reaches_the_ends_of_a_tree_in_the_order_of_its_waits) {
  auto d = spawn(priority{50}, logs_when_woken({}, 'd'));
  auto e = spawn(priority{51}, logs_when_woken({}, 'e'));
  auto c = spawn(priority{52}, logs_when_woken({}, 'c'));
  auto b = spawn(priority{53}, waits_for({}, *d, *e));
  auto a = spawn(priority{54}, waits_for({}, *c, *b));
  executor.run_until_idle();
  corank::join_handle<>* all[] = {&*c, &*d, &*e, &*b, &*a};
  for (size_t at = 0; at < 3; ++at) executor.wake(all[at]->id());
  executor.reprioritize(a->id(), priority{7});
  for (auto* each : all) EXPECT_EQ(executor.level(each->id())->level(), 7u);
  executor.reprioritize(a->id(), priority{55});
  const unsigned own[] = {52, 50, 51, 53, 55};
  for (size_t at = 0; at < 5; ++at) EXPECT_EQ(executor.level(all[at]->id())->level(), own[at]);
  executor.reprioritize(a->id(), priority{7});
  executor.run_until_idle();
  // The newest wait is first: that of `b`, and there that for `e`.
  EXPECT_LOG("edc");
  for (auto* each : all) each->detach();
  EXPECT_ALL_FREE();
}

namespace {

corank::join_handle<>* of_ring[3];

// Each waits for the next one of a cycle, and for something that does not happen.
corank::task<> waits_in_ring(storage, size_t at, corank::join_handle<>& never) {
  auto ends = never.wait();
  auto next = of_ring[(at + 1) % 3]->wait();
  co_await corank::any(ends, next);
}

}  // namespace

// Rule I8.
TEST(waiting, levels_in_a_cycle_of_waits_reach_a_fixed_point) {
  auto never = spawn(priority{60}, logs_when_woken({}, 'n'));
  auto one = spawn(priority{40}, waits_in_ring({}, 0, *never));
  auto two = spawn(priority{41}, waits_in_ring({}, 1, *never));
  auto three = spawn(priority{42}, waits_in_ring({}, 2, *never));
  of_ring[0] = &*one, of_ring[1] = &*two, of_ring[2] = &*three;
  executor.run_until_idle();
  const unsigned levels[] = {3, 50, 1};
  for (const unsigned level : levels) {
    executor.reprioritize(two->id(), *priority::from(level));
    EXPECT_TRUE(executor.level(one->id())->level() <= level);
    EXPECT_EQ(executor.level(one->id())->level(), executor.level(three->id())->level());
  }
  corank::join_handle<>* all[] = {&*one, &*two, &*three, &*never};
  for (auto* each : all) each->cancel();
  EXPECT_LOG("");
  for (auto* each : all) each->detach();
  EXPECT_ALL_FREE();
}

#if !defined(CORANK_TARGET_TESTS)
namespace {

using large = corank::slot<56 * sizeof(void*)>;

corank::task<> never_ends(large&) { co_await corank::wait_for_wake{}; }

corank::task<> waits_for_both(large&, corank::join_handle<>& one, corank::join_handle<>& other) {
  auto first = one.wait();
  auto second = other.wait();
  co_await corank::any(first, second);
}

}  // namespace

// Each donates to two, and the chain goes through the one that a recursion would visit.
TEST(waiting, a_chain_of_waits_needs_no_stack) {
  constexpr size_t length = 100'000;
  std::vector<large> slots(2 * length + 1);
  std::vector<corank::join_handle<>> chain, ends;
  chain.reserve(length + 1), ends.reserve(length);
  chain.push_back(*spawn(priority{60}, never_ends(slots[2 * length])));
  for (size_t at = 0; at < length; ++at) {
    ends.push_back(*spawn(priority{61}, never_ends(slots[2 * at])));
    chain.push_back(
        *spawn(priority{60}, waits_for_both(slots[2 * at + 1], ends.back(), chain.back())));
    executor.run_until_idle();
  }
  for (const unsigned level : {0u, 30u, 63u, 5u}) {
    executor.reprioritize(chain.back().id(), *priority::from(level));
    EXPECT_EQ(executor.level(chain.front().id())->level(), level < 60 ? level : 60);
    EXPECT_EQ(executor.level(ends.front().id())->level(), level < 60 ? level : 60);
  }
  for (auto* all : {&chain, &ends})
    for (auto& each : *all) each.cancel(), each.detach();
  EXPECT_ALL_FREE();
}
#endif

namespace {

corank::semaphore two_permits{2};
corank::event alarm_event;
corank::channel<char, 2> letters;
corank::keys<2> numbers;

corank::task<> takes_permit(storage, char name) {
  auto permit = co_await two_permits.acquire();
  log(name);
  co_await corank::wait_for_wake{};
}

corank::task<> waits_for_alarm(storage, char name) {
  co_await alarm_event;
  log(name);
}

corank::task<> sends(storage, const char* text) {
  for (; *text != 0; ++text) co_await letters.send(*text);
}

corank::task<> receives(storage, int count) {
  while (count-- > 0) log(co_await letters.receive());
}

corank::task<> wants(storage, uint64_t key, char name) {
  auto got = co_await numbers.wait(key);
  log(got ? name : '!');
}

}  // namespace

TEST(waiting, permits_go_to_the_most_urgent) {
  auto a = spawn(priority{5}, takes_permit({}, 'a'));
  auto b = spawn(priority{5}, takes_permit({}, 'b'));
  auto c = spawn(priority{9}, takes_permit({}, 'c'));
  auto d = spawn(priority{3}, takes_permit({}, 'd'));
  executor.run_until_idle();
  EXPECT_LOG("da");
  EXPECT_EQ(two_permits.available(), 0u);
  two_permits.release();  // as an interrupt handler posts: one more permit
  executor.run_until_idle();
  EXPECT_LOG("b");
  b->cancel();
  executor.run_until_idle();
  EXPECT_LOG("c");
  corank::join_handle<>* all[] = {&*a, &*b, &*c, &*d};
  for (auto* each : all) {
    each->cancel();
    each->detach();
  }
  EXPECT_EQ(two_permits.available(), 3u);
  EXPECT_ALL_FREE();
}

TEST(waiting, event_lets_all_through_and_stays_set) {
  auto a = spawn(priority{5}, waits_for_alarm({}, 'a'));
  auto b = spawn(priority{4}, waits_for_alarm({}, 'b'));
  executor.run_until_idle();
  EXPECT_LOG("");
  alarm_event.set();
  alarm_event.reset();  // an earlier waiter is still ready
  auto c = spawn(priority{3}, waits_for_alarm({}, 'c'));
  executor.run_until_idle();
  EXPECT_LOG("ba");
  alarm_event.set();
  executor.run_until_idle();
  EXPECT_LOG("c");
  alarm_event.reset();
  a->detach(), b->detach(), c->detach();
  EXPECT_ALL_FREE();
}

TEST(waiting, channel_keeps_order_and_loses_nothing) {
  auto sender = spawn(priority{5}, sends({}, "abcdef"));
  executor.run_until_idle();
  EXPECT_FALSE(letters.try_send('!'));
  auto waiting = spawn(priority{3}, receives({}, 6));
  executor.run_until_idle();
  EXPECT_LOG("abcdef");
  EXPECT_TRUE(sender->has_exited() && waiting->has_exited());
  // A receiver that is cancelled after a message was granted to it returns the message.
  auto cancelled = spawn(priority{3}, receives({}, 1));
  executor.run_until_idle();
  EXPECT_TRUE(letters.try_send('x'));
  cancelled->cancel();
  auto got = letters.try_receive();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(*got, 'x');
  sender->detach(), waiting->detach(), cancelled->detach();
  EXPECT_ALL_FREE();
}

TEST(waiting, keys_wake_whichever_side_comes_first) {
  EXPECT_TRUE(numbers.signal(7).has_value());
  auto a = spawn(priority{5}, wants({}, 7, 'a'));
  auto b = spawn(priority{5}, wants({}, 8, 'b'));
  executor.run_until_idle();
  EXPECT_LOG("a");
  EXPECT_TRUE(numbers.signal(9).has_value());
  EXPECT_FALSE(numbers.signal(10).has_value());  // one slot waits for 8, one stores 9
  auto c = spawn(priority{5}, wants({}, 11, 'c'));
  executor.run_until_idle();
  EXPECT_LOG("!");
  EXPECT_TRUE(numbers.signal(8).has_value());
  executor.run_until_idle();
  EXPECT_LOG("b");
  a->detach(), b->detach(), c->detach();
  EXPECT_ALL_FREE();
}

namespace {
corank::promise<int, char> answer;
corank::split_phase_event<int> conversion;

corank::task<> asks(storage) {
  auto got = co_await answer.get_future();
  log(got ? static_cast<char>('0' + *got) : got.error());
}

corank::task<> converts(storage) {
  for (int round = 0; round < 3; ++round) {
    auto value = co_await corank::time::timeout(10, conversion.after([] { log('s'); }));
    log(value ? static_cast<char>('0' + *value) : '-');
  }
}
}  // namespace

TEST(waiting, future_is_ready_before_or_after) {
  EXPECT_TRUE(answer.set_value(4));
  EXPECT_FALSE(answer.set_value(5));
  spawn(priority{5}, asks({}))->detach();
  executor.run_until_idle();
  EXPECT_LOG("4");
  answer.reset();
  spawn(priority{5}, asks({}))->detach();
  executor.run_until_idle();
  EXPECT_LOG("");
  EXPECT_TRUE(answer.set_error('e'));
  executor.run_until_idle();
  EXPECT_LOG("e");
  answer.reset();
  EXPECT_ALL_FREE();
}

TEST(waiting, split_phase_event_is_started_completed_and_timed_out) {
  const corank::ticks start = corank::time::now();
  auto handle = spawn(priority{5}, converts({}));
  EXPECT_FALSE(conversion.complete(1));  // no operation has begun
  executor.run_until_idle();
  EXPECT_LOG("s");
  EXPECT_TRUE(conversion.complete(2));
  EXPECT_FALSE(conversion.complete(3));
  executor.run_until_idle();
  EXPECT_LOG("2s");
  EXPECT_EQ(corank::time::advance(start + 10), 1u);
  executor.run_until_idle();
  EXPECT_LOG("-s");
  EXPECT_TRUE(handle->cancel());
  EXPECT_FALSE(conversion.is_started());
  EXPECT_FALSE(conversion.complete(4));
  EXPECT_EQ(corank::time::next_deadline(), corank::time::never);
  handle->detach();
  EXPECT_ALL_FREE();
}

namespace {

// A device without a queue: one operation at a time, which a completion may follow late.
struct device {
  bool busy = false;
  int aborted = 0;
} converter;

corank::split_phase_event<int> numbered;
corank::operation_number first_number, last_number;

corank::task<> converts_or_aborts(storage) {
  auto value = co_await corank::time::timeout(10, conversion.after([] { converter.busy = true; },
                                                                   [] {
                                                                     converter.busy = false;
                                                                     ++converter.aborted;
                                                                   }));
  log(value ? static_cast<char>('0' + *value) : '-');
}

corank::task<> converts_by_number(storage) {
  for (int round = 0; round < 2; ++round) {
    auto value = co_await corank::time::timeout(
        10, numbered.after([](corank::operation_number number) { last_number = number; }));
    log(value ? static_cast<char>('0' + *value) : '-');
    if (round == 0) first_number = last_number;
  }
}

}  // namespace

TEST(waiting, a_late_completion_of_an_operation_completes_no_other_one) {
  const corank::ticks start = corank::time::now();
  auto handle = spawn(priority{5}, converts_by_number({}));
  executor.run_until_idle();
  corank::time::advance(start + 10);
  executor.run_until_idle();
  EXPECT_LOG("-");
  EXPECT_NE(first_number, last_number);
  EXPECT_FALSE(numbered.complete(first_number, 1));
  executor.run_until_idle();
  EXPECT_LOG("");
  EXPECT_TRUE(numbered.is_started());
  EXPECT_TRUE(numbered.complete(last_number, 2));
  EXPECT_FALSE(numbered.complete(last_number, 3));
  executor.run_until_idle();
  EXPECT_LOG("2");
  EXPECT_TRUE(handle->has_exited());
  handle->detach();
  EXPECT_ALL_FREE();
}

TEST(waiting, a_dropped_operation_is_aborted_unless_it_is_complete) {
  const corank::ticks start = corank::time::now();
  for (int way = 0; way < 3; ++way) {
    converter = {};
    auto handle = spawn(priority{5}, converts_or_aborts({}));
    executor.run_until_idle();
    EXPECT_TRUE(converter.busy);
    if (way == 0) corank::time::advance(start + 10);
    if (way == 1) handle->cancel();
    const bool completed = way == 2 && conversion.complete(7);
    EXPECT_EQ(completed, way == 2);
    executor.run_until_idle();
    EXPECT_LOG(way == 0 ? "-" : way == 1 ? "" : "7");
    EXPECT_EQ(converter.aborted, way == 2 ? 0 : 1);
    EXPECT_FALSE(conversion.is_started());
    handle->detach();
  }
  {
    // A future that was never polled has started nothing.
    auto unused = conversion.after([] {}, [] { ++converter.aborted; });
  }
  EXPECT_EQ(converter.aborted, 0);
  EXPECT_ALL_FREE();
}
