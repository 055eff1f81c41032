// What `emblema layout` says: for people, with equal layers told once, and as JSON, page by page.
#pragma once

#include <string>

#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/block_layout.h"

namespace emblema {

std::string layout_text(const ModelGeometry& geometry, const ModelLayout& layout);
std::string layout_json(const ModelGeometry& geometry, const ModelLayout& layout);

}  // namespace emblema
