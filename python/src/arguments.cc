#include "python/src/arguments.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "emblema/contract/bytes.h"
#include "python/src/arrays.h"

namespace emblema::python {
namespace {

std::string shown(nb::handle given) {
  constexpr std::size_t kShownMax = 40;
  std::string text = nb::cast<std::string>(nb::repr(given));
  if (text.size() > kShownMax) text = text.substr(0, kShownMax) + "...";
  return text;
}

std::string class_name(nb::handle given) {
  return nb::cast<std::string>(given.type().attr("__name__"));
}

// The integer as 64 bits; an integer that they do not hold, or none, is InvalidError.
std::uint64_t whole_number(std::string_view field, nb::handle given, std::uint64_t max) {
  const nb::object whole = nb::steal(PyNumber_Index(given.ptr()));
  std::uint64_t value = 0;
  if (whole.is_valid()) value = PyLong_AsUnsignedLongLong(whole.ptr());
  if (PyErr_Occurred() == nullptr && value <= max) return value;
  PyErr_Clear();
  raise_invalid(fmt::format("{} is {}; allowed: integers from 0 to {}", field, shown(given), max));
}

// One number of an array of whole numbers; false: negative, or more than 64 bits hold.
template <class T>
std::uint64_t widened(const void* data, std::int64_t at, bool* fits) {
  const T value = static_cast<const T*>(data)[at];
  *fits = std::is_unsigned_v<T> || value >= T{0};
  return static_cast<std::uint64_t>(value);
}

using Reader = std::uint64_t (*)(const void*, std::int64_t, bool*);

Reader reader_of(nb::dlpack::dtype type) {
  if (type.lanes != 1) return nullptr;
  if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int)) {
    switch (type.bits) {
      case 8:
        return widened<std::int8_t>;
      case 16:
        return widened<std::int16_t>;
      case 32:
        return widened<std::int32_t>;
      case 64:
        return widened<std::int64_t>;
      default:
        return nullptr;
    }
  }
  if (type.code != static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt)) return nullptr;
  switch (type.bits) {
    case 8:
      return widened<std::uint8_t>;
    case 16:
      return widened<std::uint16_t>;
    case 32:
      return widened<std::uint32_t>;
    case 64:
      return widened<std::uint64_t>;
    default:
      return nullptr;
  }
}

std::vector<TokenId> ids_of_array(std::string_view field, const AnyArray& array) {
  if (array.ndim() != 1) {
    raise_invalid(fmt::format("{} is an array of {} dimensions; allowed: 1", field, array.ndim()));
  }
  const Reader read = reader_of(array.dtype());
  if (read == nullptr) {
    raise_invalid(fmt::format("{} is an array of {}; allowed: integers of 8 to 64 bits", field,
                              name_of(array.dtype())));
  }
  std::vector<TokenId> ids(array.shape(0));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bool fits = true;
    const std::uint64_t id =
        read(array.data(), static_cast<std::int64_t>(i) * array.stride(0), &fits);
    if (!fits || id > UINT32_MAX) {
      const std::string value =
          fits ? fmt::format("{}", id) : fmt::format("{}", static_cast<std::int64_t>(id));
      raise_invalid(
          fmt::format("{}[{}] is {}; allowed: integers from 0 to {}", field, i, value, UINT32_MAX));
    }
    ids[i] = static_cast<TokenId>(id);
  }
  return ids;
}

std::vector<ExtraId> extras_of(nb::handle given) {
  std::vector<ExtraId> extras;
  for (const nb::handle one : nb::iter(given)) {
    if (!nb::isinstance<nb::tuple>(one) || nb::len(one) != 2) {
      raise_invalid(fmt::format("extra[{}] is {}; allowed: a pair (offset, digest)", extras.size(),
                                shown(one)));
    }
    const nb::tuple pair = nb::borrow<nb::tuple>(one);
    const std::string field = fmt::format("extra[{}]", extras.size());
    extras.push_back({count_of(field + " offset", pair[0]), digest_of(field, pair[1])});
  }
  return extras;
}

}  // namespace

std::uint64_t count_of(std::string_view field, nb::handle given) {
  return whole_number(field, given, UINT64_MAX);
}

std::uint32_t small_count_of(std::string_view field, nb::handle given) {
  return static_cast<std::uint32_t>(whole_number(field, given, UINT32_MAX));
}

std::uint64_t bytes_of(std::string_view field, nb::handle given) {
  if (!nb::isinstance<nb::str>(given)) return count_of(field, given);
  auto bytes = parse_bytes(nb::cast<std::string>(given));
  if (!bytes) raise_invalid(fmt::format("{}: {}", field, bytes.error().message));
  return *bytes;
}

std::string text_of(std::string_view field, nb::handle given) {
  std::string text;
  if (nb::try_cast(given, text)) return text;
  raise_invalid(fmt::format("{} is a {}; allowed: str", field, class_name(given)));
}

bool flag_of(std::string_view field, nb::handle given) {
  if (nb::isinstance<nb::bool_>(given)) return nb::cast<bool>(given);
  raise_invalid(fmt::format("{} is {}; allowed: True, False", field, shown(given)));
}

Digest digest_of(std::string_view field, nb::handle given) {
  Digest digest;
  if (!nb::isinstance<nb::bytes>(given)) {
    raise_invalid(fmt::format("{} is a {}; allowed: bytes", field, class_name(given)));
  }
  const nb::bytes bytes = nb::borrow<nb::bytes>(given);
  if (bytes.size() == 0) return digest;
  if (bytes.size() != digest.bytes.size()) {
    raise_invalid(fmt::format("{} has {} bytes; allowed: {}, such as a SHA-256, or none", field,
                              bytes.size(), digest.bytes.size()));
  }
  std::memcpy(digest.bytes.data(), bytes.data(), digest.bytes.size());
  return digest;
}

std::uint64_t Count::of(std::string_view field) const {
  return count_of(field, given);
}

std::vector<TokenId> TokenIds::of(std::string_view field) const {
  AnyArray array;
  const bool listed = nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given);
  if (!listed && nb::try_cast(given, array)) return ids_of_array(field, array);
  if (!listed && !nb::hasattr(given, "__iter__")) {
    raise_invalid(fmt::format("{} is a {}; allowed: integers in an array or an iterable", field,
                              class_name(given)));
  }
  std::vector<TokenId> ids;
  for (const nb::handle one : nb::iter(given)) {
    // Written out where it is needed only: a long prompt is a long loop.
    const long long fast = PyLong_Check(one.ptr()) != 0 ? PyLong_AsLongLong(one.ptr()) : -1;
    if (fast >= 0 && fast <= static_cast<long long>(UINT32_MAX)) {
      ids.push_back(static_cast<TokenId>(fast));
      continue;
    }
    PyErr_Clear();
    ids.push_back(small_count_of(fmt::format("{}[{}]", field, ids.size()), one));
  }
  return ids;
}

nb::object Keywords::find(const char* name) {
  known_.insert(name);
  if (!given_.contains(name)) return nb::none();
  return given_[name];
}

Keywords& Keywords::count(const char* name, std::uint64_t* out) {
  if (const nb::object given = find(name); !given.is_none()) *out = count_of(name, given);
  return *this;
}

Keywords& Keywords::small_count(const char* name, std::uint32_t* out) {
  if (const nb::object given = find(name); !given.is_none()) *out = small_count_of(name, given);
  return *this;
}

Keywords& Keywords::bytes(const char* name, std::uint64_t* out) {
  if (const nb::object given = find(name); !given.is_none()) *out = bytes_of(name, given);
  return *this;
}

Keywords& Keywords::flag(const char* name, bool* out) {
  if (const nb::object given = find(name); !given.is_none()) *out = flag_of(name, given);
  return *this;
}

Keywords& Keywords::text(const char* name, std::string* out) {
  if (const nb::object given = find(name); !given.is_none()) *out = text_of(name, given);
  return *this;
}

Keywords& Keywords::digest(const char* name, Digest* out) {
  if (const nb::object given = find(name); !given.is_none()) *out = digest_of(name, given);
  return *this;
}

void Keywords::finish() const {
  for (const auto& [key, value] : given_) {
    const std::string name = nb::cast<std::string>(key);
    if (known_.contains(name)) continue;
    throw nb::type_error(
        fmt::format("{}() got an unexpected keyword argument '{}'", call_, name).c_str());
  }
}

Request request_of(const TokenIds& tokens, Keywords keywords) {
  Request request;
  const nb::object extra = keywords.find("extra");
  keywords.text("tenant", &request.tenant)
      .text("salt", &request.salt)
      .digest("adapter", &request.adapter)
      .flag("recompute_last_block", &request.recompute_last_block)
      .finish();
  if (!extra.is_none()) request.extra = extras_of(extra);
  request.tokens = tokens.of("tokens");
  return request;
}

}  // namespace emblema::python
