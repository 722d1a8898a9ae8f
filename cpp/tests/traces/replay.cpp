#include "replay.hpp"

#include <corank/corank.hpp>

#include "held.hpp"
#include "words.hpp"

namespace replay {
namespace {

using corank::detail::in_storage;

constexpr size_t most_coroutines = 12;
constexpr size_t most_things = 4;
constexpr size_t not_found = names<1>::none;

// Returns a level more urgent than the executor's if the trace says so (rules G1 to G6).
struct elsewhere_view {
  unsigned level = corank::levels_count;
  bool asked = true;
  unsigned most_urgent_elsewhere() const { return asked ? level : corank::levels_count; }
};

// Raw storage for an object that is made anew for each trace.
template <class T>
class fresh {
 public:
  template <class... Arguments>
  void make(Arguments... arguments) {
    new (room_, in_storage{}) T(arguments...);
  }
  T& operator*() { return *static_cast<T*>(static_cast<void*>(room_)); }

 private:
  alignas(T) unsigned char room_[sizeof(T)];
};

// Channels of the capacities that traces use.
struct any_channel {
  size_t capacity = 0;
  fresh<corank::channel<uint64_t, 1>> one;
  fresh<corank::channel<uint64_t, 2>> two;
  fresh<corank::channel<uint64_t, 3>> three;
  fresh<corank::channel<uint64_t, 4>> four;

  bool make(uint64_t wanted) {
    capacity = wanted;
    switch (wanted) {
      case 1:
        return one.make(), true;
      case 2:
        return two.make(), true;
      case 3:
        return three.make(), true;
      case 4:
        return four.make(), true;
      default:
        return false;
    }
  }
  template <class Use>
  auto with(Use use) {
    switch (capacity) {
      case 1:
        return use(*one);
      case 2:
        return use(*two);
      case 3:
        return use(*three);
      default:
        return use(*four);
    }
  }
};

corank::pool<192 * sizeof(void*), most_coroutines> frames;

// The replay of one trace.
class scene {
 public:
  scene() = default;
  ~scene() = default;
  report run(const embedded_trace& trace);

 private:
  friend class scripted_wait;
  friend corank::task<> follow(corank::in<frames>, scene&, size_t me);

  // ---- the scene from outside ----
  bool steps();
  bool outside(const statement& line);
  bool anywhere(const statement& line);
  void end();

  // ---- what a coroutine asks during its poll ----
  // Begins a poll. Returns whether `me` is the coroutine that the trace expects.
  bool enter(size_t me) {
    ++polls_[me];
    if (failed()) return false;
    if (expected_ != me) return fail("another coroutine was expected to be picked");
    if (entered_) return fail("one step has polled the coroutine twice");
    return entered_ = true;
  }
  // Reads the next line of the poll. Returns false at the trace's end or after a failure.
  bool next(statement& line) {
    if (failed()) return false;
    if (!reader_.next(line)) return fail("the poll goes on after the trace's end");
    line_ = line.line;
    return true;
  }
  void poll_ends() { poll_over_ = true; }

  bool fail(const char* message) {
    if (!failed()) report_ = report{outcome::failed, line_, message, report_.polls};
    return false;
  }
  bool check(bool good, const char* message) { return good || fail(message); }
  bool failed() const { return report_.what == outcome::failed; }

  bool spawn(const statement& line);
  static bool ends(corank::result<void, corank::join_error> result, const word& wanted);
  size_t coroutine(const word& name) {
    const size_t found = coroutines_.find(name);
    if (found == not_found) fail("no coroutine of this name");
    return found;
  }

  reader reader_{""};
  report report_;
  unsigned line_ = 0;
  bool is_bounded_ = false;
  corank::strict strict_;
  fresh<corank::bounded> bounded_;
  elsewhere_view elsewhere_;

  names<most_coroutines> coroutines_;
  corank::join_handle<> handles_[most_coroutines];
  bool has_handle_[most_coroutines]{};
  corank::coroutine_id ids_[most_coroutines];
  unsigned polls_[most_coroutines]{};
  size_t expected_ = not_found;
  bool entered_ = false;
  bool poll_over_ = false;

  names<most_things> mutexes_, semaphores_, events_, channels_;
  fresh<corank::mutex<>> mutex_[most_things];
  fresh<corank::semaphore> semaphore_[most_things];
  fresh<corank::event> event_[most_things];
  any_channel channel_[most_things];
  fresh<corank::keys<4>> keys_;
};

// Has no destructor, which the end of the program would have to call.
fresh<scene> stage;

// Awaits the future in a box, which is polled as the trace says.
class scripted_wait : public corank::awaitable<scripted_wait> {
 public:
  scripted_wait(scene& of, size_t me, boxed& what, const statement& line)
      : of_(&of), what_(&what), line_(&line), me_(me) {}

  bool poll() {
    if (began_) {
      if (!of_->enter(me_) || !of_->next(again_)) return false;
      line_ = &again_;
      if (again_[0] == "abandon") {
        abandoned_ = true;
        what_->clear();
        return true;
      }
      if (!(again_[0] == "got") && !(again_[0] == "waits"))
        return of_->fail("the coroutine still waits: `got`, `waits` or `abandon` was expected");
    }
    began_ = true;
    const bool ready = what_->poll();
    const bool should_wait = line_->last() == "waits";
    if (ready == should_wait)
      return of_->fail(ready ? "it should wait, and does not" : "it should not wait, and does");
    if (!ready) of_->poll_ends();
    return ready;
  }
  // Returns the line that said that the future was ready, or null if it was abandoned.
  const statement* take() { return abandoned_ ? nullptr : line_; }

 private:
  scene* of_;
  boxed* what_;
  const statement* line_;
  statement again_;
  size_t me_;
  bool began_ = false;
  bool abandoned_ = false;
};

// The body of every coroutine, which executes the statements of the trace.
corank::task<> follow(corank::in<frames>, scene& of, size_t me) {
  holdings held;
  statement line;
  of.enter(me);
  for (;;) {
    if (!of.next(line)) {
      co_await corank::wait_for_wake{};
      of.enter(me);
      continue;
    }
    const word& verb = line[0];
    boxed what;
    size_t index = not_found;
    corank::join_handle<> joined;
    if (verb == "yield" || verb == "block") {
      of.poll_ends();
      if (verb == "yield") {
        co_await corank::yield_now{};
      } else {
        co_await corank::wait_for_wake{};
      }
      of.enter(me);
      continue;
    }
    if (verb == "finish") {
      of.poll_ends();
      co_return;
    }
#if defined(__cpp_exceptions)
    if (verb == "panic") {
      of.poll_ends();
      throw 1;
    }
#endif
    if (verb == "unlock") {
      of.check(held.give_back(true, of.mutexes_.find(line[1])),
               "the coroutine does not hold this lock");
      continue;
    }
    if (verb == "release" && held.give_back(false, of.semaphores_.find(line[1]))) continue;

    if (verb == "lock") {
      index = of.mutexes_.find(line[1]);
      what.fill([&] { return (*of.mutex_[index]).lock(); });
    } else if (verb == "acquire") {
      index = of.semaphores_.find(line[1]);
      what.fill([&] { return (*of.semaphore_[index]).acquire(); });
    } else if (verb == "wait") {
      index = of.events_.find(line[1]);
      what.fill([&] { return (*of.event_[index]).wait(); });
    } else if (verb == "send" || verb == "receive") {
      index = of.channels_.find(line[1]);
      const bool send = verb == "send";
      of.channel_[index].with([&](auto& channel) {
        if (send) {
          what.fill([&] { return channel.send(line[2].number()); });
        } else {
          what.fill([&] { return channel.receive(); });
        }
      });
    } else if (verb == "wait-key") {
      what.fill([&] { return (*of.keys_).wait(line[1].number()); });
    } else if (verb == "sleep") {
      what.fill([&] { return corank::time::sleep_until(line[1].number()); });
    } else if (verb == "join") {
      index = of.coroutine(line[1]);
      if (index == not_found || !of.has_handle_[index]) {
        of.fail("there is no handle of it any more");
        continue;
      }
      joined = corank::detail::move(of.handles_[index]);
      of.has_handle_[index] = false;
      what.fill([&] { return joined.wait(); });
    } else {
      of.anywhere(line);
      continue;
    }

    const bool locks = verb == "lock", acquires = verb == "acquire", receives = verb == "receive",
               joins = verb == "join", waits_for_key = verb == "wait-key";
    const statement* const said = co_await scripted_wait(of, me, what, line);
    if (said == nullptr) continue;
    if (locks)
      of.check(held.add(index, what.as<corank::mutex<>::lock_future>().take()),
               "the coroutine holds too much");
    if (acquires)
      of.check(held.add(index, what.as<corank::semaphore::acquire_future>().take()),
               "the coroutine holds too much");
    if (waits_for_key)
      of.check(what.as<corank::keys<4>::wait_future>().take().has_value(), "the key has no room");
    if (receives) {
      const uint64_t message = of.channel_[index].with([&](auto& channel) {
        using channel_type = corank::detail::bare_t<decltype(channel)>;
        return what.as<typename channel_type::receive_future>().take();
      });
      of.check(message == said->last().number(), "another message was expected");
    }
    if (joins)
      of.check(of.ends(what.as<corank::join<void>>().take(), said->last()),
               "another result was expected");
  }
}

report scene::run(const embedded_trace& trace) {
  statement setting;
  for (reader all(trace.text); all.next(setting);)
    if (setting[0] == "demotion")
      return report{outcome::skipped, setting.line, "the library has no demotion", 0};
#if !defined(__cpp_exceptions)
  // Without exceptions a panic ends the program (rule F4).
  statement each;
  for (reader all(trace.text); all.next(each);)
    if (each[0] == "panic") return report{outcome::skipped, each.line, "panics need exceptions", 0};
#endif
  reader_ = reader(trace.text);
  corank::detail::clockwork = corank::detail::timers();
  keys_.make();
  statement line;
  const bool begins = reader_.next(line) && line[0] == "corank-trace" && line[1] == "1" &&
                      reader_.next(line) && line[0] == "name" && line[1] == trace.name &&
                      reader_.next(line) && line[0] == "rules";
  if (!begins) {
    fail("a trace begins with `corank-trace 1`, `name …` and `rules …`");
  } else {
    steps();
  }
  end();
  return report_;
}

// Executes settings until the first line that is not one, and then steps.
bool scene::steps() {
  bool in_settings = true;
  statement line;
  while (!failed() && reader_.next(line)) {
    line_ = line.line;
    const word& verb = line[0];
    if (in_settings) {
      if (verb == "policy") {
        is_bounded_ = line[1] == "bounded";
        if (is_bounded_) bounded_.make(static_cast<uint32_t>(line[2].number()));
        continue;
      }
      if (verb == "global") {
        elsewhere_.asked = line[1] == "strict";
        continue;
      }
      if (verb == "capacity") {
        corank::executor.limit(static_cast<unsigned>(line[1].number()));
        continue;
      }
      if (verb == "mutex") {
        mutex_[mutexes_.add(line[1])].make();
        continue;
      }
      if (verb == "semaphore") {
        semaphore_[semaphores_.add(line[1])].make(static_cast<uint32_t>(line[2].number()));
        continue;
      }
      if (verb == "event") {
        event_[events_.add(line[1])].make();
        continue;
      }
      if (verb == "channel") {
        if (!channel_[channels_.add(line[1])].make(line[2].number()))
          fail("no channel of this capacity here: add it to any_channel");
        continue;
      }
      in_settings = false;
    }
    outside(line);
  }
  return !failed();
}

bool scene::outside(const statement& line) {
  const word& verb = line[0];
  const bool run = verb == "run";
  if (run || verb == "idle" || verb == "give-way") {
    expected_ = run ? coroutine(line[1]) : not_found;
    if (failed()) return false;
    entered_ = poll_over_ = false;
    const corank::step wanted = run              ? corank::step::ran
                                : verb == "idle" ? corank::step::idle
                                                 : corank::step::elsewhere;
    const unsigned at = line.line;
    const corank::step did = is_bounded_ ? corank::executor.step_under(*bounded_, elsewhere_)
                                         : corank::executor.step_under(strict_, elsewhere_);
    if (failed()) return false;
    if (did != wanted) {
      line_ = at;
      return fail(did == corank::step::ran    ? "a coroutine ran, and none was expected"
                  : did == corank::step::idle ? "nothing is ready"
                                              : "it yielded to the system");
    }
    if (run) ++report_.polls;
    return !run || check(poll_over_, "the poll has ended before the trace says so");
  }
  if (verb == "advance") return corank::time::advance(line[1].number()), true;
  if (verb == "elsewhere")
    return elsewhere_.level =
               line[1] == "none" ? corank::levels_count : static_cast<unsigned>(line[1].number()),
           true;
  if (verb == "result") {
    const size_t of = coroutine(line[1]);
    if (of == not_found || !check(has_handle_[of], "there is no handle of it any more"))
      return false;
    if (line[2] == "none") return check(!handles_[of].has_exited(), "it has exited");
    if (!check(handles_[of].has_exited(), "it has not exited")) return false;
    const bool as_wanted = ends(handles_[of].take(), line[2]);
    handles_[of].detach();
    has_handle_[of] = false;
    return check(as_wanted, "another result was expected");
  }
  return anywhere(line);
}

bool scene::anywhere(const statement& line) {
  const word& verb = line[0];
  const bool refused = line.last() == "refused";
  if (verb == "spawn") return spawn(line);
  if (verb == "set" || verb == "reset") {
    corank::event& event = *event_[events_.find(line[1])];
    return verb == "set" ? event.set() : event.reset(), true;
  }
  if (verb == "signal-key")
    return check((*keys_).signal(line[1].number()).has_value(), "no room for this key");
  if (verb == "release") return (*semaphore_[semaphores_.find(line[1])]).release(), true;
  if (verb == "bitmap") {
    uint64_t bits = 0;
    for (size_t at = 1; at < line.count && line[at].is_number(); ++at)
      bits |= uint64_t{1} << line[at].number();
    return check(corank::executor.ready().bits() == bits, "the bitmap is another");
  }
  if (verb == "running") {
    const unsigned level =
        line[1] == "none" ? corank::levels_count : static_cast<unsigned>(line[1].number());
    return check(corank::executor.running() == level,
                 "another level is published for the running coroutine");
  }
  const size_t of = coroutine(line[1]);
  if (of == not_found) return false;
  if (verb == "wake") return corank::wake(ids_[of]), true;
  if (verb == "reprioritize") {
    auto level = corank::priority::from(static_cast<unsigned>(line[2].number()));
    return check((level && corank::reprioritize(ids_[of], *level)) != refused,
                 "re-prioritise was expected to do otherwise");
  }
  if (verb == "cancel")
    return check(corank::cancel(ids_[of]) != refused, "cancel was expected to do otherwise");
  if (verb == "detach") {
    handles_[of].detach();
    has_handle_[of] = false;
    return true;
  }
  if (verb == "state") {
    const corank::state now = corank::executor.state(ids_[of]);
    const char* const name = now == corank::state::ready     ? "ready"
                             : now == corank::state::running ? "running"
                             : now == corank::state::blocked ? "blocked"
                                                             : "exited";
    return check(line[2] == name, "another state was expected");
  }
  if (verb == "level") {
    auto level = corank::executor.level(ids_[of]);
    return check(level && level->level() == line[2].number(), "another level was expected");
  }
  if (verb == "polls")
    return check(polls_[of] == line[2].number(), "another number of polls was expected");
  return fail("this line is not understood");
}

bool scene::spawn(const statement& line) {
  const size_t me = coroutines_.add(line[1]);
  if (!check(me != not_found, "too many coroutines, or one name twice")) return false;
  auto level = line[2].is_number()
                   ? corank::priority::from(static_cast<unsigned>(line[2].number()))
                   : corank::result<corank::priority, corank::priority_out_of_range>(
                         corank::priority::standard);
  bool spawned = false;
  if (level) {
    if (auto handle = corank::spawn(*level, follow({}, *this, me))) {
      handles_[me] = corank::detail::move(*handle);
      has_handle_[me] = spawned = true;
      ids_[me] = handles_[me].id();
    }
  }
  return check(spawned != (line.last() == "refused"), "spawn was expected to do otherwise");
}

bool scene::ends(corank::result<void, corank::join_error> result, const word& wanted) {
  if (result) return wanted == "ok";
  return result.error() == corank::join_error::cancelled ? wanted == "cancelled"
                                                         : wanted == "panicked";
}

// Removes all state, so that the next trace begins afresh.
void scene::end() {
  const outcome so_far = report_.what;
  for (size_t at = 0; at < coroutines_.count(); ++at) {
    corank::cancel(ids_[at]);
    if (has_handle_[at]) handles_[at].detach();
  }
  corank::executor.limit(~0u);
  if (so_far == outcome::passed)
    check(corank::executor.live() == 0 && frames.free() == most_coroutines,
          "a coroutine is left over");
}

}  // namespace

report run(const embedded_trace& trace) {
  stage.make();
  return (*stage).run(trace);
}

}  // namespace replay
