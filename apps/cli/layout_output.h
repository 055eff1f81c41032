// What `emblema layout` says: for people, with equal layers told once, and as JSON, page by page.
#pragma once

#include <string>
#include <vector>

#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/block_layout.h"

namespace emblema {

// One of whole rows where the page is not planar.
std::vector<PageSegment> segments_of(const StreamPage& page);

std::string layout_text(const ModelGeometry& geometry, const ModelLayout& layout);
std::string layout_json(const ModelGeometry& geometry, const ModelLayout& layout);

}  // namespace emblema
