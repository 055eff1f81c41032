// What the files of the extension share: each binds one concept to the module.
#pragma once

#include <utility>

#include <nanobind/nanobind.h>

#include "emblema/contract/result.h"

namespace emblema::python {

namespace nb = nanobind;

// In the order in which they are called: a later one may name types of an earlier one.
void bind_errors(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_model(nb::module_& module);
void bind_geometry(nb::module_& module);
void bind_stats(nb::module_& module);
void bind_why(nb::module_& module);
void bind_rows(nb::module_& module);
void bind_sequence(nb::module_& module);
void bind_segment(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_step(nb::module_& module);
void bind_attention(nb::module_& module);

// Throws the Python exception of the error's code, with its message as it is.
[[noreturn]] void raise(const Error& error);

// The value of a result, or its error as an exception. GIL held.
template <class T>
T value_of(Result<T>&& result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline void check(const Status& status) {
  if (!status) raise(status.error());
}

[[noreturn]] inline void raise_invalid(std::string message) {
  raise(Error{ErrorCode::Invalid, std::move(message)});
}

}  // namespace emblema::python
