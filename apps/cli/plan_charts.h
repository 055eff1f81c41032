// The pictures of `emblema plan`: bytes against context, capacity against tensor ranks, roofline,
// and how memory is divided. Of one model, or of several side by side.
//
// Values are drawn as doubles; every figure beside a picture is the plan's own integer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emblema/model/model_config.h"
#include "emblema/plan/capacity_plan.h"
#include "emblema/plan/curves.h"
#include "emblema/report/chart.h"
#include "emblema/report/table.h"

namespace emblema {

// Of one GPU, and where decoding stands under its roof.
struct RooflinePicture {
  struct Point {
    std::string label;         // "TP 8"
    double flop_per_byte = 0;  // above 0
  };
  std::string hardware{};      // "h100"
  double flop_per_second = 0;  // above 0, both
  double bytes_per_second = 0;
  std::vector<Point> points{};
};

// What one model's pictures are made of. REQUIRES: both pointers outlive it.
struct PlanPicture {
  const ModelConfig* model = nullptr;
  const CapacityPlan* plan = nullptr;  // of this deployment
  Deployment deployment{};
  std::string headline{};                     // the answer in one line
  std::optional<RooflinePicture> roofline{};  // none: not asked
  std::optional<Table> engines{};             // a row for each, ours first; none: not asked
  std::vector<std::string> engine_lines{};    // what they would log, how they differ
};

enum class PlanChart : std::uint8_t { kBytes, kCapacity, kRoofline };

// The picture and the curves that its charts draw, worked out once.
struct PlanCurves {
  PlanPicture picture;
  ByteCurves bytes;  // of the rank that bounds the plan
  std::vector<TensorPoint> by_tensor;
};

// Errors as of bytes_by_kind and capacity_by_tensor.
Result<PlanCurves> curves_of(const PlanPicture& picture);

// Payload and state of one sequence by kind of layer, and what is allocated.
Result<LineChart> kinds_chart(const PlanCurves& curves);

// Charts of several models draw the first six of them (kSeriesMax).

// Payload and state of one sequence, a line for each model.
Result<LineChart> bytes_chart(std::span<const PlanCurves> models);

// Growing bytes per token on each rank.
Result<LineChart> rate_chart(std::span<const PlanCurves> models);

// Whether any model has a pool to fill.
bool has_capacity(std::span<const PlanCurves> models);
// Tokens of one sequence as long as fits.
Result<LineChart> tokens_chart(std::span<const PlanCurves> models);
// Sequences of the context at once.
Result<LineChart> concurrency_chart(std::span<const PlanCurves> models);

// Invalid: no model has a roofline, roofs differ, or a figure that is not above 0.
Result<LineChart> roofline_chart(std::span<const PlanCurves> models);

struct MemoryPart {
  std::string name;
  std::uint64_t bytes = 0;
};

// Of one rank's GPU where its memory is known, else of its pool: weights, blocks, arena, snapshots,
// what is not used. All parts, also those of no bytes; empty without a pool.
std::vector<MemoryPart> memory_parts(const RankCapacity& rank, const Deployment& deployment);

// One bar for each rank of the plan. REQUIRES: there is a pool.
Result<BarChart> memory_chart(const PlanPicture& picture);

}  // namespace emblema
