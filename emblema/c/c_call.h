// What every call of the C interface does around its work: keep exceptions in, remember the
// message, read and write structs of any version, refuse null pointers. Internal to this room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

#include "emblema/c/emblema.h"
#include "emblema/contract/ids.h"
#include "emblema/contract/result.h"

namespace emblema::c_interface {

// Remembers the message for emblema_last_error() of this thread, cut to what fits. Never fails.
emblema_status remember(emblema_status status, std::string_view message) noexcept;
emblema_status remember(const Status& status) noexcept;

// Runs what gives a Status; no exception leaves.
template <class Work>
emblema_status guarded(const Work& work) noexcept {
  try {
    return remember(work());
  } catch (const std::bad_alloc&) {
    return remember(EMBLEMA_IO, "memory was refused");
  } catch (const std::exception& error) {
    return remember(EMBLEMA_IO, error.what());
  } catch (...) {
    return remember(EMBLEMA_IO, "an error without a name");
  }
}

struct Argument {
  std::string_view name;
  const void* pointer;
};

// Invalid, naming the first one that is null.
[[nodiscard]] Status require(std::initializer_list<Argument> arguments);

// Invalid where a struct's size is none that any version has.
[[nodiscard]] Status check_struct(std::string_view name, std::uint32_t struct_bytes);
// Invalid where a newer caller's fields, which are not known here, are set.
[[nodiscard]] Status check_unknown(std::string_view name, const void* given,
                                   std::uint32_t given_size, std::uint64_t known_size);

// The struct as this version knows it: what an older caller does not have is 0.
template <class Struct>
Result<Struct> read_struct(std::string_view name, const Struct* given) {
  static_assert(std::is_trivially_copyable_v<Struct> && sizeof(Struct) % 8 == 0);
  if (Status ok = require({{name, given}}); !ok) return propagate(ok);
  if (Status ok = check_struct(name, given->struct_bytes); !ok) return propagate(ok);
  if (Status ok = check_unknown(name, given, given->struct_bytes, sizeof(Struct)); !ok) {
    return propagate(ok);
  }
  Struct known{};
  std::memcpy(&known, given, std::min<std::size_t>(given->struct_bytes, sizeof(Struct)));
  return known;
}

// Gives back a result as far as the caller knows it.
template <class Struct>
[[nodiscard]] Status write_struct(std::string_view name, const Struct& value, Struct* out) {
  static_assert(std::is_trivially_copyable_v<Struct> && sizeof(Struct) % 8 == 0);
  if (Status ok = require({{name, out}}); !ok) return ok;
  const std::uint32_t size = out->struct_bytes;
  if (Status ok = check_struct(name, size); !ok) return ok;
  std::memcpy(out, &value, std::min<std::size_t>(size, sizeof(Struct)));
  out->struct_bytes = size;
  if (size > sizeof(Struct)) {
    std::memset(reinterpret_cast<unsigned char*>(out) + sizeof(Struct), 0, size - sizeof(Struct));
  }
  return {};
}

// Arrays and texts. Invalid: null with a length, or a length that nothing has.
Result<std::span<const TokenId>> tokens_of(std::string_view name, const std::uint32_t* tokens,
                                           std::uint64_t count);
Result<std::string_view> text_of(std::string_view name, const char* text, std::uint64_t bytes);

Digest digest_of(const std::uint8_t* bytes);  // null: none

// Invalid: neither 0 nor 1.
Result<bool> flag_of(std::string_view name, std::uint32_t value);

// Invalid: a field kept for later that is set.
[[nodiscard]] Status check_reserved(std::string_view name, std::uint32_t value);

}  // namespace emblema::c_interface
