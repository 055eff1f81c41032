// What stands behind the opaque types of emblema.h. Internal to this room.
#pragma once

#include <utility>
#include <variant>

#include "emblema/c/emblema.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/kernels/attention_workspace.h"
#include "emblema/session/engine.h"

struct emblema_model {
  emblema::ModelGeometry geometry;
};

struct emblema_engine {
  emblema::Engine engine;
};

// A sequence, or the builder of a segment, which is written like one.
struct emblema_sequence {
  std::variant<emblema::Sequence, emblema::SegmentBuilder> what;
  mutable emblema::AttentionWorkspace workspace{};  // of attention, kept from call to call

  emblema::SegmentBuilder* builder() { return std::get_if<emblema::SegmentBuilder>(&what); }
  emblema::Sequence& sequence() {
    if (emblema::SegmentBuilder* building = builder()) return building->sequence();
    return std::get<emblema::Sequence>(what);
  }
};

struct emblema_segment {
  emblema::Segment segment;
};
