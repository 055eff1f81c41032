#include "python/src/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace emblema::python {
namespace {

constexpr auto kBfloat = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat);

std::string shape_text(const Shape& shape) {
  std::vector<std::string> lengths;
  for (const std::int64_t length : shape) {
    lengths.push_back(length == kAnyLength ? "any" : fmt::format("{}", length));
  }
  return fmt::format("({}{})", fmt::join(lengths, ", "), lengths.size() == 1 ? "," : "");
}

template <class Array>
Shape shape_of(const Array& array) {
  Shape shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(static_cast<std::int64_t>(array.shape(i)));
  }
  return shape;
}

bool fits(const Shape& shape, const Shape& wanted) {
  if (shape.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (wanted[i] != kAnyLength && shape[i] != wanted[i]) return false;
  }
  return true;
}

template <class Array>
void check_floats(std::string_view field, const Array& array, const Shape& wanted) {
  if (!is_float(array.dtype(), 32)) {
    raise_invalid(
        fmt::format("{} is an array of {}; allowed: float32", field, name_of(array.dtype())));
  }
  if (const Shape shape = shape_of(array); !fits(shape, wanted)) {
    raise_invalid(fmt::format("{} has the shape {}; allowed: {}", field, shape_text(shape),
                              shape_text(wanted)));
  }
  if (!in_order(array)) {
    raise_invalid(
        fmt::format("{} is not contiguous; allowed: C order, such as "
                    "numpy.ascontiguousarray gives",
                    field));
  }
}

[[noreturn]] void refuse(std::string_view field, nb::handle given, std::string_view allowed) {
  raise_invalid(fmt::format("{} is a {}; allowed: {}", field,
                            nb::cast<std::string>(given.type().attr("__name__")), allowed));
}

// What is computed here has no gradient: one that is asked for would be lost without a word.
void check_no_gradient(std::string_view field, nb::handle given) {
  if (!nb::hasattr(given, "requires_grad")) return;
  if (!nb::cast<bool>(given.attr("requires_grad"))) return;
  raise_invalid(
      fmt::format("{} is a tensor that requires a gradient; allowed: one that does not, such as "
                  "detach() gives",
                  field));
}

nb::object new_floats(nb::handle like, const Shape& shape) {
  nb::list lengths;
  for (const std::int64_t length : shape) lengths.append(length);
  if (nb::hasattr(like, "new_empty")) return like.attr("new_empty")(nb::tuple(lengths));
  return nb::module_::import_("numpy").attr("empty")(nb::tuple(lengths), "float32");
}

}  // namespace

bool is_float(nb::dlpack::dtype type, std::uint8_t bits) {
  return type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) &&
         type.bits == bits && type.lanes == 1;
}

bool is_bfloat16(nb::dlpack::dtype type) {
  return type.code == kBfloat && type.bits == 16 && type.lanes == 1;
}

std::string name_of(nb::dlpack::dtype type) {
  const char* name = "other numbers of ";
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Int:
      name = "int";
      break;
    case nb::dlpack::dtype_code::UInt:
      name = "uint";
      break;
    case nb::dlpack::dtype_code::Float:
      name = "float";
      break;
    case nb::dlpack::dtype_code::Bfloat:
      name = "bfloat";
      break;
    case nb::dlpack::dtype_code::Complex:
      name = "complex";
      break;
    case nb::dlpack::dtype_code::Bool:
      return "bool";
    default:
      break;
  }
  return fmt::format("{}{}", name, type.bits);
}

AnyArray array_of(std::string_view field, nb::handle given) {
  AnyArray array;
  check_no_gradient(field, given);
  if (!given.is_none() && nb::try_cast(given, array)) return array;
  refuse(field, given, "an array in CPU memory, of numpy or torch");
}

Floats floats_of(std::string_view field, nb::handle given, const Shape& wanted) {
  Floats floats{array_of(field, given), {}};
  check_floats(field, floats.array, wanted);
  floats.values = {static_cast<const float*>(floats.array.data()), floats.array.size()};
  return floats;
}

Results results_of(std::string_view field, nb::handle given, nb::handle like, const Shape& wanted) {
  Results results;
  check_no_gradient(field, given);
  results.object = given.is_none() ? new_floats(like, wanted) : nb::borrow(given);
  if (!nb::try_cast(results.object, results.array)) {
    refuse(field, results.object, "a writable array in CPU memory, of numpy or torch");
  }
  check_floats(field, results.array, wanted);
  results.values = {static_cast<float*>(results.array.data()), results.array.size()};
  return results;
}

}  // namespace emblema::python
