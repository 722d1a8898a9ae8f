// The runner: lanes in a ring, resumed in turn.
#pragma once

#include "options.hpp"
#include "strand.hpp"
#include "width.hpp"

#include <functional>
#include <ranges>
#include <type_traits>

namespace corank::detail {

template <class Work>
inline constexpr bool has_plain = false;
template <class Strand, class Plain>
inline constexpr bool has_plain<either<Strand, Plain>> = true;

template <class Work>
auto& strand_form(Work& work) {
  if constexpr (has_plain<std::remove_const_t<Work>>) {
    return work.strand;
  } else {
    return work;
  }
}

template <class Work, class Item>
using output_of_work =
    typename decltype(strand_form(std::declval<std::remove_reference_t<Work>&>())(
        std::declval<lane&>(), std::declval<Item>()))::value_type;

// The lanes of a stretch of items, with their outcomes and frames.
template <class Value>
struct crew {
  explicit crew(size_t width) : width(width), frames(at, width) {
    for (size_t each = 0; each < width; ++each) at[each].outcome_ = &outcomes[each];
  }
  // Cancels the items that have not ended.
  ~crew() { ring_below(0); }

  // Cancels the items from `limit` on and links the others in a ring. Returns its last lane, or
  // null.
  lane* ring_below(size_t limit) noexcept {
    lane* last = nullptr;
    for (lane* each = at; each != at + width; ++each) {
      if (each->item_ == nullptr) continue;
      if (each->index_ >= limit) {
        std::coroutine_handle<>::from_address(std::exchange(each->item_, nullptr)).destroy();
        continue;
      }
      each->next_ = last != nullptr ? last->next_ : each;
      if (last != nullptr) last->next_ = each;
      last = each;
    }
    return last;
  }

  // Removes the lane behind `last` from the ring. Returns the new last lane, or null.
  static lane* without_next(lane* last) noexcept {
    lane* const gone = last->next_;
    last->next_ = gone->next_;
    return gone == last ? nullptr : last;
  }

  size_t width;
  outcome<Value> outcomes[most_lanes];
  lane at[most_lanes];
  slab frames;
};

// The items of one call, in order: the number begun, and the limit.
template <class Position, class End, class Work, class Output>
class turns {
  using item = std::iter_reference_t<Position>;
  using value = output_of_work<Work, item>;

 public:
  static constexpr bool has_plain_form = has_plain<std::remove_const_t<Work>>;

  turns(Position position, End end, Work& work, Output& output, const std::stop_token& stop)
      : position_(std::move(position)),
        end_(std::move(end)),
        work_(work),
        output_(output),
        stop_(stop) {}

  // Returns the number of completed items, between two stretches.
  [[nodiscard]] size_t count() const noexcept { return begun_ < limit_ ? begun_ : limit_; }

  // Tests whether there is another item.
  [[nodiscard]] [[gnu::always_inline]] bool more() const {
    return begun_ < limit_ && !(position_ == end_) && !stop_.stop_requested();
  }

  // Returns the number of items that have not begun, or the largest number if it is unknown.
  [[nodiscard]] size_t left() const {
    if constexpr (std::sized_sentinel_for<End, Position>)
      return static_cast<size_t>(end_ - position_);
    else
      return none;
  }

  // Completes items, `width` at a time, until `count` are complete or none is left.
  void interleave(size_t width, size_t count) {
    crew<value> lanes(width);
    for (size_t at = 0; at < width; ++at)
      if (!begin_next(lanes.at[at], count)) break;
    lane* last = lanes.ring_below(limit_);
    while (last != nullptr) {
      lane* now = last->next_;
      for (;; last = now, now = now->next_) {
        std::coroutine_handle<>::from_address(now->leaf_).resume();
        if (now->item_ == nullptr) break;
      }
      finish(*now);
      if (begin_next(*now, count))
        last = now;
      else
        last = limit_ == none ? lanes.without_next(last) : lanes.ring_below(limit_);
    }
#if defined(__cpp_exceptions)
    if (error_) std::rethrow_exception(std::move(error_));
#endif
  }

  // Completes items one after the other, in the plain form.
  void plain(size_t count)
    requires has_plain_form
  {
    // Adjacent items take one call, unless a stop can be requested between them.
    if constexpr (requires { work_.stretch(begun_, count); }) {
      if (!stop_.stop_possible()) {
        if (begun_ >= count || !more()) return;
        const size_t now = std::min(count - begun_, left());
        work_.stretch(begun_, now);
        begun_ += now;
        position_ += static_cast<std::iter_difference_t<Position>>(now);
        return;
      }
    }
    lane here;
    for (; begun_ < count && more(); ++begun_, ++position_) {
      if constexpr (is_void<value>) {
        call_plain(here);
      } else {
        output_(begun_, call_plain(here));
      }
      if (here.last_) limit_ = begun_ + 1;
    }
  }

 private:
  static constexpr size_t none = ~size_t{0};

  [[gnu::always_inline]] decltype(auto) call_plain(lane& here) {
    if constexpr (std::is_invocable_v<decltype(work_.plain)&, lane&, item>) {
      here.index_ = begun_;
      return std::invoke(work_.plain, here, *position_);
    } else {
      return std::invoke(work_.plain, *position_);
    }
  }

  // Lets the lane begin items until one waits. Returns false if none is left.
  [[gnu::always_inline]] bool begin_next(lane& in, size_t count) {
    while (begun_ < count && more()) {
      in.index_ = begun_;
      in.begins_ = true;
      strand_form(work_)(in, *position_).release();
      ++begun_;
      ++position_;
      if (in.item_ != nullptr) return true;
      finish(in);
    }
    return false;
  }

  // Stores the output of the item that has ended in this lane. Sets the limit behind the last item,
  // or at one that has failed.
  [[gnu::always_inline]] void finish(lane& in) {
    auto& ended = *static_cast<outcome<value>*>(in.outcome_);
    if (ended.failed()) [[unlikely]] {
      limit_ = in.index_;
      error_ = ended.error();
    } else {
      if (in.last_) [[unlikely]] {
        // An item before this one cannot have failed or stopped: this one would have been
        // cancelled.
        limit_ = in.index_ + 1;
        error_ = nullptr;
      }
      if constexpr (!is_void<value>) output_(in.index_, ended.take());
    }
    ended.clear();
  }

  Position position_;
  [[no_unique_address]] End end_;
  Work& work_;
  Output& output_;
  const std::stop_token& stop_;
  size_t begun_ = 0;
  // The first item that does not count.
  size_t limit_ = none;
  // The exception of the item at the limit.
  std::exception_ptr error_;
};

// Runs the items in the chosen width; see interleave.hpp.
template <class Items, class Work, class Output>
size_t interleave_into(Items& items, Work& work, Output& output,
                       const interleave_options& options) {
  turns run(std::ranges::begin(items), std::ranges::end(items), work, output, options.stop);
  const size_t all = ~size_t{0};
  if (options.width != automatic) {
    run.interleave(options.width < most_lanes ? options.width : most_lanes, all);
  } else {
    choose_width(run, options);
  }
  return run.count();
}

}  // namespace corank::detail
