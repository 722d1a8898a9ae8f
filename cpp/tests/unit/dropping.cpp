// What a future obtained and its coroutine did not take goes back when the future is destroyed
// (rule X9).
#include "test.hpp"

using corank::executor;
using corank::priority;
using corank::spawn;
using test::log;

namespace {

// GCC's frame has each temporary twice.
corank::slot<120 * sizeof(void*)> frame;
using storage = corank::in<frame>;

corank::mutex<int> left{1}, right{2};
corank::semaphore permits{1};
corank::channel<char, 2> letters;
corank::keys<2> numbers;
corank::event never;

void run_until(corank::ticks time) {
  executor.run_until_idle();
  corank::time::advance(time);
  executor.run_until_idle();
}

corank::task<> wants_both(storage) {
  auto both = co_await corank::time::timeout(3, corank::all(left.lock(), right.lock()));
  log(both ? 'y' : 'n');
  co_await never;
}

corank::task<> wants_both_variables(storage) {
  {
    auto one = left.lock();
    auto other = right.lock();
    auto both = co_await corank::time::timeout(3, corank::all(one, other));
    log(both ? 'y' : 'n');
  }
  co_await never;
}

template <class Future>
corank::task<> waits_with_limit(storage, Future (*make)()) {
  auto both = co_await corank::time::timeout(3, corank::all(make(), never.wait()));
  log(both ? 'y' : 'n');
}

// Runs one future that becomes ready beside one that does not, until the limit.
template <class Future>
void ready_and_not_taken(Future (*make)()) {
  const corank::ticks start = corank::time::now();
  auto handle = spawn(priority{5}, waits_with_limit({}, make));
  run_until(start + 3);
  EXPECT_LOG("n");
  EXPECT_TRUE(handle->has_exited());
  handle->detach();
}

}  // namespace

TEST(dropping, a_limit_gives_back_the_locks_that_were_obtained) {
  auto held = right.try_lock();
  ASSERT_TRUE(held.has_value());
  for (int variables = 0; variables < 2; ++variables) {
    const corank::ticks start = corank::time::now();
    auto handle = spawn(priority{5}, variables != 0 ? wants_both_variables({}) : wants_both({}));
    executor.run_until_idle();
    EXPECT_TRUE(left.is_locked());
    run_until(start + 3);
    EXPECT_LOG("n");
    EXPECT_FALSE(left.is_locked());
    EXPECT_FALSE(handle->has_exited());
    handle->cancel();
    handle->detach();
  }
  held->unlock();
  EXPECT_FALSE(right.is_locked());
  EXPECT_TRUE(frame.is_free());
  EXPECT_ALL_FREE();
}

TEST(dropping, a_limit_gives_back_permits_messages_and_signals) {
  ready_and_not_taken(+[] { return permits.acquire(); });
  EXPECT_EQ(permits.available(), 1u);

  EXPECT_TRUE(letters.try_send('a') && letters.try_send('b'));
  ready_and_not_taken(+[] { return letters.receive(); });
  EXPECT_FALSE(letters.try_send('c'));  // both are there, in their order
  EXPECT_EQ(*letters.try_receive(), 'a');
  EXPECT_EQ(*letters.try_receive(), 'b');
  EXPECT_TRUE(letters.try_send('c') && letters.try_send('d'));
  EXPECT_TRUE(letters.try_receive() && letters.try_receive());

  // A send is done once there was room, as try_send() is.
  ready_and_not_taken(+[] { return letters.send('s'); });
  EXPECT_EQ(*letters.try_receive(), 's');
  EXPECT_FALSE(letters.try_receive().has_value());
  EXPECT_TRUE(letters.try_send('e') && letters.try_send('f'));
  EXPECT_TRUE(letters.try_receive() && letters.try_receive());

  EXPECT_TRUE(numbers.signal(7).has_value());
  ready_and_not_taken(+[] { return numbers.wait(7); });
  // The signal is there again: it takes the room of its key until a wait uses it up.
  EXPECT_TRUE(numbers.signal(8).has_value());
  EXPECT_FALSE(numbers.signal(9).has_value());
  auto seven = numbers.wait(7), eight = numbers.wait(8);
  EXPECT_TRUE(seven.poll() && eight.poll());
  EXPECT_TRUE(seven.take() && eight.take());
  EXPECT_TRUE(numbers.signal(10).has_value() && numbers.signal(11).has_value());
  auto ten = numbers.wait(10), eleven = numbers.wait(11);
  EXPECT_TRUE(ten.poll() && eleven.poll());
  EXPECT_TRUE(ten.take() && eleven.take());
  EXPECT_TRUE(frame.is_free());
  EXPECT_ALL_FREE();
}

namespace {

corank::task<> takes_none(storage) {
  {
    auto lock = left.lock();
    auto limit = corank::time::sleep(3);
    if (co_await corank::any(lock, limit) == 0) log('0');
    // Ready as long as it was not taken.
    if (co_await corank::any(limit, lock) == 1) log('1');
    log(left.is_locked() ? 'l' : 'u');
  }
  log(left.is_locked() ? 'l' : 'u');
}

corank::task<> takes_one(storage) {
  auto first = co_await corank::any(left.lock(), corank::time::sleep(3));
  log(static_cast<char>('0' + first));
  if (auto* lock = first.get<0>()) log(static_cast<char>('0' + **lock));
  log(first.get<1>() == nullptr ? 'l' : 's');
  log(left.is_locked() ? 'l' : 'u');
}

corank::task<> takes_time(storage) {
  auto byte = letters.receive();
  auto first = co_await corank::any(never.wait(), byte, corank::time::sleep(3));
  log(static_cast<char>('0' + first.index()));
  if (first.get<1>() != nullptr) log(byte.take());
}

corank::task<> takes_all(storage) {
  auto [one, letter, rung] =
      co_await corank::all(left.lock(), letters.receive(), corank::time::sleep(3));
  log(static_cast<char>('0' + *one));
  log(letter);
  log(left.is_locked() ? 'l' : 'u');
}

void runs_to_its_end(corank::task<> work, corank::ticks time) {
  auto handle = spawn(priority{5}, corank::detail::move(work));
  executor.run_until_idle();
  corank::time::advance(time);
  executor.run_until_idle();
  EXPECT_TRUE(handle->has_exited());
  handle->detach();
}

}  // namespace

TEST(dropping, any_gives_back_a_lock_that_is_not_taken) {
  runs_to_its_end(takes_none({}), corank::time::now());
  EXPECT_LOG("01lu");
  EXPECT_TRUE(frame.is_free());
  EXPECT_ALL_FREE();
}

TEST(dropping, any_returns_the_output_of_the_future_that_was_ready) {
  runs_to_its_end(takes_one({}), corank::time::now());
  EXPECT_LOG("01ll");
  EXPECT_FALSE(left.is_locked());
  auto held = left.try_lock();
  runs_to_its_end(takes_one({}), corank::time::now() + 3);
  EXPECT_LOG("1sl");
  held->unlock();
  EXPECT_FALSE(left.is_locked());
  EXPECT_TRUE(letters.try_send('x'));
  runs_to_its_end(takes_time({}), corank::time::now());
  EXPECT_LOG("1x");
  runs_to_its_end(takes_time({}), corank::time::now() + 3);
  EXPECT_LOG("2");
  EXPECT_EQ(corank::time::next_deadline(), corank::time::never);
  EXPECT_TRUE(frame.is_free());
  EXPECT_ALL_FREE();
}

TEST(dropping, all_returns_the_outputs) {
  EXPECT_TRUE(letters.try_send('x'));
  runs_to_its_end(takes_all({}), corank::time::now() + 3);
  EXPECT_LOG("1xl");
  EXPECT_FALSE(left.is_locked());
  EXPECT_TRUE(frame.is_free());
  EXPECT_ALL_FREE();
}
