// With CORANK_BASEPRI, a masked part holds up the interrupts that it says, and no more urgent ones.
#include "../unit/test.hpp"

#include "board/timer.hpp"
#include "handler.hpp"

namespace {

volatile bool came;

volatile uint8_t& priority_of_systick = *reinterpret_cast<volatile uint8_t*>(0xE000ED23);

// Tests whether SysTick with this priority interrupts a masked part.
bool interrupts_masked_part(uint8_t priority) {
  const uint8_t before = priority_of_systick;
  priority_of_systick = priority;
  came = false;
  timer_instead = [] { came = true; };
  bool inside;
  {
    corank::critical masked;
    timer::fire_after(16, timer::top);
    for (int rounds = 0; rounds < 100; ++rounds) asm volatile("");
    inside = came;
  }
  while (!came) {
  }
  timer::stop();
  timer_instead = nullptr;
  priority_of_systick = before;
  return inside;
}

}  // namespace

TEST(basepri, more_urgent_interrupts_wait_for_nothing) {
  EXPECT_FALSE(interrupts_masked_part(0xF0));
  EXPECT_FALSE(interrupts_masked_part(CORANK_BASEPRI));
  EXPECT_TRUE(interrupts_masked_part(CORANK_BASEPRI - 16));
  EXPECT_TRUE(interrupts_masked_part(0));
}
