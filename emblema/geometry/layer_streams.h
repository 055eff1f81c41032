// From the facts of one layer to what it must remember and how it attends.
#pragma once

#include <vector>

#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"

namespace emblema {

// The layers that `options` ask for, draft layers last. REQUIRES: check_model(model) passed.
// Invalid: more layers than the model has, or draft layers where it declares none.
// Unsupported: a data type that has no meaning for the attention of some layer.
Result<std::vector<LayerGeometry>> layers_of(const ModelConfig& model,
                                             const GeometryOptions& options);

}  // namespace emblema
