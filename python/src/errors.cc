// One exception type for each error code, all of them EmblemaError, with the library's message.
#include <array>
#include <string>

#include "python/src/core.h"

namespace emblema::python {
namespace {

struct ErrorType {
  ErrorCode code;
  const char* name;
  const char* doc;
  PyObject* also;  // the built-in exception that such an error is, too
};

// Owned by the module's dictionary; the module is never unloaded.
std::array<PyObject*, 6> types{};

PyObject* add_type(nb::module_& module, const char* name, const char* doc, nb::handle bases) {
  const std::string full = std::string("emblema.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr(name) = nb::steal(type);
  return type;
}

}  // namespace

void bind_errors(nb::module_& module) {
  PyObject* base =
      add_type(module, "EmblemaError",
               "What every error of the engine is. The message is one line: what, which field,\n"
               "the value, what is allowed.",
               nb::handle(PyExc_Exception));
  const std::array<ErrorType, 6> all = {{
      {ErrorCode::NotFound, "NotFoundError", "It is not there; nothing was changed.",
       PyExc_LookupError},
      {ErrorCode::Corrupt, "CorruptError",
       "Stored bytes are not what was written; they are out of use.", nullptr},
      {ErrorCode::OutOfBlocks, "OutOfBlocksError",
       "No room in the pool: release something, or open a larger pool; nothing was taken.",
       PyExc_MemoryError},
      {ErrorCode::Io, "IoError", "The operating system refused; the message has its reason.",
       PyExc_OSError},
      {ErrorCode::Invalid, "InvalidError",
       "An argument or input is wrong: correct it; nothing was changed.", PyExc_ValueError},
      {ErrorCode::Unsupported, "UnsupportedError",
       "Legal, but not served by this build: the message names what is missing.",
       PyExc_NotImplementedError},
  }};
  for (const ErrorType& one : all) {
    const nb::object bases =
        one.also == nullptr ? nb::object(nb::make_tuple(nb::handle(base)))
                            : nb::object(nb::make_tuple(nb::handle(base), nb::handle(one.also)));
    types[static_cast<std::size_t>(one.code)] = add_type(module, one.name, one.doc, bases);
  }
}

void raise(const Error& error) {
  PyErr_SetString(types[static_cast<std::size_t>(error.code)], error.message.c_str());
  throw nb::python_error();
}

}  // namespace emblema::python
