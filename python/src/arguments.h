// Arguments as Python gives them, made the library's: each function names the argument in its
// error, as the library does. GIL held throughout.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/session/engine.h"
#include "python/src/core.h"

namespace emblema::python {

// Any Python integer, not looked at yet: one that 64 bits do not hold is InvalidError, where a
// plain std::uint64_t would be a TypeError of many lines.
struct Count {
  nb::object given;
  std::uint64_t of(std::string_view field) const;
};

// Token ids: a 1-D array of integers (numpy, torch or another that speaks DLPack or the buffer
// protocol), or any iterable of integers.
struct TokenIds {
  nb::object given;
  std::vector<TokenId> of(std::string_view field) const;
};

std::uint64_t count_of(std::string_view field, nb::handle given);
std::uint32_t small_count_of(std::string_view field, nb::handle given);  // of 32 bits
std::uint64_t bytes_of(std::string_view field, nb::handle given);        // 4096 or "4GiB"
std::string text_of(std::string_view field, nb::handle given);
bool flag_of(std::string_view field, nb::handle given);
Digest digest_of(std::string_view field, nb::handle given);  // 32 bytes, or none: no digest

// Reads keyword arguments one by one; None is as good as not given. finish() is a TypeError where
// one was not asked for.
class Keywords {
 public:
  Keywords(std::string_view call, nb::kwargs given) : call_(call), given_(std::move(given)) {}

  Keywords& count(const char* name, std::uint64_t* out);
  Keywords& small_count(const char* name, std::uint32_t* out);
  Keywords& bytes(const char* name, std::uint64_t* out);
  Keywords& flag(const char* name, bool* out);
  Keywords& text(const char* name, std::string* out);
  Keywords& digest(const char* name, Digest* out);
  nb::object find(const char* name);  // None where it was not given
  void finish() const;

 private:
  std::string_view call_;
  nb::kwargs given_;
  std::set<std::string, std::less<>> known_;
};

// What start(), segment(), pin() and why() are asked with.
struct Request {
  std::vector<TokenId> tokens;
  std::string tenant;
  std::string salt;
  Digest adapter;
  std::vector<ExtraId> extra;
  bool recompute_last_block = false;

  StartRequest view() const { return {tokens, tenant, salt, adapter, extra, recompute_last_block}; }
};

Request request_of(const TokenIds& tokens, Keywords keywords);

}  // namespace emblema::python

namespace nanobind::detail {

template <>
struct type_caster<emblema::python::Count> {
  NB_TYPE_CASTER(emblema::python::Count, const_name("int"))
  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    value.given = borrow(source);
    return PyIndex_Check(source.ptr()) != 0;
  }
};

template <>
struct type_caster<emblema::python::TokenIds> {
  NB_TYPE_CASTER(emblema::python::TokenIds, const_name("collections.abc.Iterable[int]"))
  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    value.given = borrow(source);
    return true;
  }
};

}  // namespace nanobind::detail
