// A model as Python has it: its facts, and where they came from, so that a command can read them
// again. Plain values; any thread may read.
#pragma once

#include <string>

#include "emblema/geometry/model_geometry.h"
#include "emblema/model/model_config.h"
#include "python/src/core.h"

namespace emblema::python {

struct LoadedModel {
  ModelConfig config;
  std::string source;  // what load() was given, "" of text
  std::string json;    // or the text of a config.json
};

// A preset's name, a path (str or os.PathLike), a dict (the content of a config.json) or a
// ModelConfig. GIL held.
LoadedModel model_of(nb::handle given);

// The same, or a Geometry; `kv_dtype` "" is bf16, and not allowed with a Geometry, which has its
// own. GIL held.
ModelGeometry geometry_of(nb::handle given, const std::string& kv_dtype);

// fractions.Fraction of it. GIL held.
nb::object fraction(const Rational& value);

// A model's or layer's text for Python, which wants std::string.
inline std::string text(std::string_view view) {
  return std::string(view);
}

}  // namespace emblema::python
