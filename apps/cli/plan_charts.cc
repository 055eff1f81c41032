#include "apps/cli/plan_charts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "emblema/contract/bytes.h"
#include "emblema/report/theme.h"

namespace emblema {
namespace {

constexpr std::size_t kKindsMax = 4;  // leaves colours for the sum and for what is allocated
constexpr std::size_t kBarsMax = 64;

std::span<const PlanCurves> drawn(std::span<const PlanCurves> models) {
  return models.first(std::min(models.size(), kSeriesMax));
}

// " The first 6 of 9 models are drawn."
std::string left_out(std::span<const PlanCurves> models) {
  if (models.size() <= kSeriesMax) return {};
  return fmt::format(" The first {} of {} models are drawn.", kSeriesMax, models.size());
}

LineSeries curve(std::string name, std::span<const std::uint64_t> tokens,
                 std::span<const std::uint64_t> bytes) {
  LineSeries series{.name = std::move(name), .points = {}, .style = LineStyle::kPlain};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (bytes[i] == 0) continue;  // has no place on a logarithmic axis
    series.points.push_back({static_cast<double>(tokens[i]), static_cast<double>(bytes[i])});
  }
  return series;
}

// The two kinds that matter least become one, until all have a colour.
std::vector<KindCurve> few_kinds(std::vector<KindCurve> kinds) {
  while (kinds.size() > kKindsMax) {
    const auto last = [](const KindCurve& kind) { return kind.payload_bytes.back(); };
    const auto least = std::ranges::min_element(kinds, {}, last);
    KindCurve merged = std::move(*least);
    kinds.erase(least);
    KindCurve& other = *std::ranges::min_element(kinds, {}, last);
    other.kind += " + " + merged.kind;
    for (std::size_t i = 0; i < other.payload_bytes.size(); ++i) {
      other.payload_bytes[i] += merged.payload_bytes[i];
    }
  }
  return kinds;
}

// Payload and state: all that a sequence keeps.
std::vector<std::uint64_t> all_kinds(const ByteCurves& curves) {
  std::vector<std::uint64_t> sum(curves.tokens.size());
  for (const KindCurve& kind : curves.kinds) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += kind.payload_bytes[i];
  }
  return sum;
}

std::string rank_in_words(const PlanCurves& curves) {
  const CapacityPlan& plan = *curves.picture.plan;
  if (curves.picture.deployment.parallel.ranks() == 1) return "One sequence on one GPU";
  return fmt::format("One sequence, the part of one GPU of {}", plan.ranks.front().name);
}

template <class Value>
Result<LineChart> tensor_chart(LineChartData data, std::span<const PlanCurves> models,
                               Value&& value_of) {
  data.x_label = "tensor parallel ranks (TP)";
  data.x_unit = Unit::kCount;
  data.x_scale = Scale::kLog2;
  data.note += left_out(models);
  for (const PlanCurves& model : drawn(models)) {
    LineSeries series{.name = model.picture.plan->model, .points = {}};
    for (const TensorPoint& point : model.by_tensor) {
      const double value = point.refused.empty() ? value_of(point) : 0.0;
      if (value > 0) series.points.push_back({static_cast<double>(point.tensor), value});
    }
    data.series.push_back(std::move(series));
  }
  return LineChart::of(std::move(data));
}

std::string pool_in_words(std::span<const PlanCurves> models) {
  const auto& pool_bytes = models.front().picture.deployment.pool_bytes;
  if (!pool_bytes) return "Each GPU's pool is what its share of the weights leaves.";
  return fmt::format("A pool of {} on each GPU, however many there are.",
                     format_bytes(*pool_bytes));
}

// "TP 1, 2", "TP 1…8": labels of points that would lie on one another, in order.
std::string join_labels(const std::string& all, const std::string& next) {
  const std::size_t space = next.rfind(' ');
  if (space == std::string::npos || !all.starts_with(next.substr(0, space + 1))) {
    return all + ", " + next;
  }
  for (const std::string_view separator : {"…", ", "}) {
    const std::size_t at = all.find(separator);
    if (at != std::string::npos) return all.substr(0, at) + "…" + next.substr(space + 1);
  }
  return all + ", " + next.substr(space + 1);
}

double attainable(const RooflinePicture& roof, double flop_per_byte) {
  return std::min(roof.flop_per_second, flop_per_byte * roof.bytes_per_second);
}

LineSeries points_under(const RooflinePicture& roof, const std::string& name) {
  LineSeries series{.name = name, .points = {}, .style = LineStyle::kPoints};
  for (const RooflinePicture::Point& point : roof.points) {
    const auto same = std::ranges::find_if(series.points, [&point](const LinePoint& other) {
      return std::abs(other.x - point.flop_per_byte) < 0.005 * other.x;
    });
    if (same != series.points.end()) {
      same->label = join_labels(same->label, point.label);
    } else {
      series.points.push_back(
          {point.flop_per_byte, attainable(roof, point.flop_per_byte), point.label});
    }
  }
  return series;
}

// From half of the least intensity to twice the largest, the ridge among them.
LineSeries roof_line(const RooflinePicture& roof, std::span<const LineSeries> points) {
  const double ridge = roof.flop_per_second / roof.bytes_per_second;
  double low = ridge;
  double high = ridge;
  for (const LineSeries& series : points) {
    for (const LinePoint& point : series.points) {
      low = std::min(low, point.x);
      high = std::max(high, point.x);
    }
  }
  const std::string owner = roof.hardware.empty() ? "" : " of " + roof.hardware;
  return {.name = fmt::format("roof{}: {:.4g} TB/s, {}", owner, roof.bytes_per_second / 1e12,
                              format_value(roof.flop_per_second, Unit::kFlopRate)),
          .points = {{low / 2, attainable(roof, low / 2)},
                     {ridge, roof.flop_per_second},
                     {high * 2, roof.flop_per_second}},
          .style = LineStyle::kPlain,
          .shows_last = false};
}

Status check_roof(const PlanPicture& picture, const RooflinePicture& first) {
  const RooflinePicture& roof = *picture.roofline;
  const bool is_above_0 =
      roof.flop_per_second > 0 && roof.bytes_per_second > 0 &&
      std::ranges::all_of(roof.points, [](const auto& point) { return point.flop_per_byte > 0; });
  if (!is_above_0) {
    return fail(ErrorCode::Invalid, fmt::format("roofline of {}: a figure is 0; allowed: above 0",
                                                picture.plan->model));
  }
  if (roof.flop_per_second == first.flop_per_second &&
      roof.bytes_per_second == first.bytes_per_second) {
    return {};
  }
  return fail(ErrorCode::Invalid,
              fmt::format("roofline of {}: its roof is another GPU's; allowed: one for all models",
                          picture.plan->model));
}

bool knows_whole_gpu(const RankCapacity& rank, const Deployment& deployment) {
  return rank.weight_bytes && deployment.hardware && deployment.hardware->memory_bytes;
}

}  // namespace

Result<PlanCurves> curves_of(const PlanPicture& picture) {
  const CapacityPlan& plan = *picture.plan;
  const auto lengths = lengths_for_curves(picture.model->max_positions);
  auto bytes = bytes_by_kind(*picture.model, picture.deployment, plan.ranks.front().stage, lengths);
  if (!bytes) return propagate(bytes);
  Deployment deployment = picture.deployment;
  // One length for all points: else each would count sequences of its own longest.
  if (deployment.context_tokens == 0) deployment.context_tokens = plan.context_tokens;
  auto by_tensor = capacity_by_tensor(*picture.model, deployment);
  if (!by_tensor) return propagate(by_tensor);
  return PlanCurves{picture, std::move(*bytes), std::move(*by_tensor)};
}

Result<LineChart> kinds_chart(const PlanCurves& curves) {
  LineChartData data{
      .title = "Bytes against context, by kind of layer",
      .note = rank_in_words(curves) + ". Allocated: whole blocks, padding and the arena slot.",
      .x_label = "context (tokens)",
      .x_unit = Unit::kTokens,
      .y_unit = Unit::kBytes,
      .x_scale = Scale::kLog2,
      .y_scale = Scale::kLog2};
  for (const KindCurve& kind : few_kinds(curves.bytes.kinds)) {
    data.series.push_back(curve(kind.kind, curves.bytes.tokens, kind.payload_bytes));
  }
  if (data.series.size() > 1) {
    data.series.push_back(curve("together", curves.bytes.tokens, all_kinds(curves.bytes)));
  }
  data.series.push_back(curve("allocated", curves.bytes.tokens, curves.bytes.allocated_bytes));
  return LineChart::of(std::move(data));
}

Result<LineChart> bytes_chart(std::span<const PlanCurves> models) {
  LineChartData data{.title = "Bytes against context",
                     .note =
                         "One sequence on one GPU's rank: payload and state, each model up to "
                         "its own longest context." +
                         left_out(models),
                     .x_label = "context (tokens)",
                     .x_unit = Unit::kTokens,
                     .y_unit = Unit::kBytes,
                     .x_scale = Scale::kLog2,
                     .y_scale = Scale::kLog2};
  for (const PlanCurves& model : drawn(models)) {
    data.series.push_back(
        curve(model.picture.plan->model, model.bytes.tokens, all_kinds(model.bytes)));
  }
  return LineChart::of(std::move(data));
}

Result<LineChart> rate_chart(std::span<const PlanCurves> models) {
  return tensor_chart(
      {.title = "Bytes per token on each GPU, against TP",
       .note = "Heads are shared out; latents and index keys are repeated.",
       .y_unit = Unit::kBytes,
       .y_scale = Scale::kLog2},
      models, [](const TensorPoint& point) { return point.growing_bytes_per_token.approximate(); });
}

bool has_capacity(std::span<const PlanCurves> models) {
  return std::ranges::any_of(models, [](const PlanCurves& model) {
    return std::ranges::any_of(model.by_tensor,
                               [](const TensorPoint& point) { return point.tokens.has_value(); });
  });
}

Result<LineChart> tokens_chart(std::span<const PlanCurves> models) {
  return tensor_chart({.title = "Tokens that fit, against TP",
                       .note = pool_in_words(models),
                       .y_label = "tokens",
                       .y_unit = Unit::kCount,
                       .y_scale = Scale::kLog10},
                      models, [](const TensorPoint& point) {
                        return static_cast<double>(point.tokens.value_or(0));
                      });
}

Result<LineChart> concurrency_chart(std::span<const PlanCurves> models) {
  std::string note = "Of one copy of the model, each sequence ";
  const std::uint64_t context = models.front().picture.plan->context_tokens;
  const bool is_same = std::ranges::all_of(models, [context](const PlanCurves& model) {
    return model.picture.plan->context_tokens == context;
  });
  note += is_same ? tokens_in_words(context) + " tokens long." : "as long as its model's context.";
  return tensor_chart({.title = "Sequences at once, against TP",
                       .note = std::move(note),
                       .y_label = "sequences",
                       .y_unit = Unit::kCount,
                       .y_scale = Scale::kLog10},
                      models, [](const TensorPoint& point) {
                        return static_cast<double>(point.concurrency.value_or(0));
                      });
}

Result<LineChart> roofline_chart(std::span<const PlanCurves> models) {
  const RooflinePicture* first = nullptr;
  std::vector<LineSeries> points;
  for (const PlanCurves& model : models) {
    if (!model.picture.roofline || points.size() + 1 == kSeriesMax) continue;
    if (first == nullptr) first = &*model.picture.roofline;
    if (const Status ok = check_roof(model.picture, *first); !ok) return propagate(ok);
    points.push_back(points_under(*model.picture.roofline, model.picture.plan->model));
  }
  if (first == nullptr) {
    return fail(ErrorCode::Invalid,
                "roofline is not there; allowed: with --gpu, or with "
                "--bandwidth and --flops");
  }
  const double ridge = first->flop_per_second / first->bytes_per_second;
  LineChartData data{.title = "Roofline of attention while decoding",
                     .note =
                         "Left of the ridge the memory's bandwidth bounds attention, right of "
                         "it the arithmetic does.",
                     .x_label = "FLOP per byte that is read",
                     .y_label = "FLOP/s",
                     .y_unit = Unit::kFlopRate,
                     .x_scale = Scale::kLog2,
                     .y_scale = Scale::kLog10,
                     .series = {roof_line(*first, points)},
                     .guides = {{ridge, fmt::format("ridge {:.4g} FLOP per byte", ridge)}}};
  for (LineSeries& series : points) data.series.push_back(std::move(series));
  return LineChart::of(std::move(data));
}

std::vector<MemoryPart> memory_parts(const RankCapacity& rank, const Deployment& deployment) {
  if (!rank.pool || !rank.pool_bytes) return {};
  const PoolPlan& pool = *rank.pool;
  std::uint64_t growing = 0;
  std::uint64_t capped = 0;
  for (std::size_t i = 0; i < pool.groups.size(); ++i) {
    const bool grows = rank.groups[i].retention == Retention::kGrowing;
    (grows ? growing : capped) += pool.groups[i].blocks * pool.groups[i].block_bytes;
  }
  std::vector<MemoryPart> parts = {{"growing blocks", growing},
                                   {"window and chunk blocks", capped},
                                   {"arena", pool.arena_bytes},
                                   {"snapshots", pool.snapshot_bytes},
                                   {"unused", *rank.pool_bytes - pool.used_bytes}};
  if (!knows_whole_gpu(rank, deployment)) return parts;
  const std::uint64_t memory = *deployment.hardware->memory_bytes;
  const std::uint64_t planned = *rank.weight_bytes + *rank.pool_bytes;
  parts.insert(parts.begin(), {"weights", *rank.weight_bytes});
  parts.push_back({"kept for others", memory > planned ? memory - planned : 0});
  return parts;
}

Result<BarChart> memory_chart(const PlanPicture& picture) {
  const auto& ranks = picture.plan->ranks;
  const bool is_whole = knows_whole_gpu(ranks.front(), picture.deployment);
  BarChartData data{.title = is_whole ? "How a GPU's memory is divided" : "How the pool is divided",
                    .unit = Unit::kBytes,
                    .arrangement = BarArrangement::kStacked};
  std::vector<std::vector<MemoryPart>> bars;
  for (const RankCapacity& rank : ranks) {
    if (bars.size() == kBarsMax) break;
    bars.push_back(memory_parts(rank, picture.deployment));
    data.categories.push_back(rank.name);
  }
  for (std::size_t part = 0; part < bars.front().size(); ++part) {
    BarSeries series{bars.front()[part].name, {}};
    for (const auto& bar : bars) series.values.push_back(static_cast<double>(bar[part].bytes));
    if (std::ranges::any_of(series.values, [](double bytes) { return bytes > 0; })) {
      data.series.push_back(std::move(series));
    }
  }
  while (data.series.size() > kSeriesMax) {
    const BarSeries last = std::move(data.series.back());
    data.series.pop_back();
    data.series.back().name += ", " + last.name;
    for (std::size_t i = 0; i < last.values.size(); ++i) {
      data.series.back().values[i] += last.values[i];
    }
  }
  return BarChart::of(std::move(data));
}

}  // namespace emblema
