// How an operation here says that it failed: a value, never an exception.
//
// Six codes and no more (a seventh needs an ADR). Each says what the caller can do:
//   NotFound     it is not there; nothing was changed
//   Corrupt      stored bytes are not what was written; they are out of use
//   OutOfBlocks  no memory in the pool; release something, or open a larger pool; nothing was taken
//   Io           the operating system refused; the message carries its reason
//   Invalid      the argument or the input is wrong; correct it; nothing was changed
//   Unsupported  a legal request that this build cannot serve; the message names what is missing
//
// A message is one line: what, which field, the value, what would be accepted.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace emblema {

enum class ErrorCode { NotFound, Corrupt, OutOfBlocks, Io, Invalid, Unsupported };

std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;

  std::string describe() const;  // "Invalid: num_hidden_layers is 0; allowed: 1 to 65536"
};

template <class T>
using Result = tl::expected<T, Error>;

// What a function with nothing to return gives: `Status s = f(); if (!s) return propagate(s);`
// A Result is asked for its value and so gets looked at; a Status could be dropped. tl::expected is
// not [[nodiscard]] and an alias cannot be: the functions are, each in its header.
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::make_unexpected(Error{code, std::move(message)});
}

// Hands a failure on to a caller whose result has another type.
template <class T>
tl::unexpected<Error> propagate(const Result<T>& failed) {
  return tl::make_unexpected(failed.error());
}

}  // namespace emblema
