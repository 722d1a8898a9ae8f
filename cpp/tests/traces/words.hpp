// The words of a trace, and the names in it.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace replay {

struct word {
  const char* begin = nullptr;
  size_t length = 0;

  bool empty() const { return length == 0; }
  bool operator==(const char* text) const {
    for (size_t at = 0; at < length; ++at)
      if (text[at] == 0 || text[at] != begin[at]) return false;
    return text[length] == 0;
  }
  bool operator==(const word& other) const {
    if (length != other.length) return false;
    for (size_t at = 0; at < length; ++at)
      if (begin[at] != other.begin[at]) return false;
    return true;
  }
  bool is_number() const {
    for (size_t at = 0; at < length; ++at)
      if (begin[at] < '0' || begin[at] > '9') return false;
    return length > 0;
  }
  uint64_t number() const {
    uint64_t value = 0;
    for (size_t at = 0; at < length; ++at)
      value = value * 10 + static_cast<uint64_t>(begin[at] - '0');
    return value;
  }
};

// One statement: its words, and the number of its line.
struct statement {
  static constexpr size_t most = 24;
  word words[most];
  size_t count = 0;
  unsigned line = 0;

  const word& operator[](size_t at) const {
    static constexpr word none;
    return at < count ? words[at] : none;
  }
  const word& last() const { return (*this)[count - 1]; }
};

// Cuts a text into statements.
class reader {
 public:
  explicit reader(const char* text) : at_(text) {}

  // Reads the next statement with at least one word. Returns false at the end.
  bool next(statement& into) {
    while (*at_ != 0) {
      ++line_;
      into.count = 0;
      into.line = line_;
      while (*at_ != 0 && *at_ != '\n') {
        if (*at_ == '#') {
          while (*at_ != 0 && *at_ != '\n') ++at_;
        } else if (*at_ == ' ' || *at_ == '\t' || *at_ == '\r') {
          ++at_;
        } else {
          const char* const begin = at_;
          while (*at_ != 0 && *at_ != '\n' && *at_ != ' ' && *at_ != '\t' && *at_ != '#') ++at_;
          if (into.count < statement::most)
            into.words[into.count++] = word{begin, static_cast<size_t>(at_ - begin)};
        }
      }
      if (*at_ == '\n') ++at_;
      if (into.count > 0) return true;
    }
    return false;
  }

 private:
  const char* at_;
  unsigned line_ = 0;
};

// The names of objects of one kind. The index in the list identifies an object.
template <size_t Most>
class names {
 public:
  static constexpr size_t none = ~size_t{0};
  size_t count() const { return count_; }
  size_t add(word name) {
    if (count_ == Most || find(name) != none) return none;
    words_[count_] = name;
    return count_++;
  }
  size_t find(word name) const {
    for (size_t at = 0; at < count_; ++at)
      if (words_[at] == name) return at;
    return none;
  }
  void clear() { count_ = 0; }

 private:
  word words_[Most];
  size_t count_ = 0;
};

}  // namespace replay
