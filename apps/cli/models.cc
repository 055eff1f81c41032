// emblema models: the presets, one a line.
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/commands.h"
#include "apps/cli/counts.h"
#include "apps/cli/json_output.h"
#include "emblema/contract/bytes.h"
#include "emblema/plan/capacity_plan.h"
#include "emblema/report/table.h"

namespace emblema {
namespace {

struct Line {
  CapacityPlan plan;
  std::uint64_t max_positions = 0;
};

Result<std::vector<Line>> plan_presets() {
  std::vector<Line> lines;
  for (const Preset& preset : presets()) {
    const auto model = parse_model_config(preset.json, preset.name);
    if (!model) return propagate(model);
    const Deployment one_gpu;
    auto plan = plan_capacity(*model, one_gpu);
    if (!plan) return propagate(plan);
    lines.push_back({std::move(*plan), model->max_positions});
  }
  return lines;
}

std::string as_text(const std::vector<Line>& lines) {
  Table table({{"model"},
               {"attention"},
               {"layers", Align::kRight},
               {"bf16 bytes per token", Align::kRight},
               {"windows up to", Align::kRight}});
  for (const Line& line : lines) {
    const RankCapacity& rank = line.plan.ranks.front();
    table.add_row(
        {line.plan.model, line.plan.attention, fmt::format("{}", line.plan.layers.size()),
         exact_in_words(rank.growing_bytes_per_token),
         rank.fixed_bytes_per_sequence == 0 ? "-" : format_bytes(rank.fixed_bytes_per_sequence)});
  }
  return table.to_text();
}

std::string as_json(const std::vector<Line>& lines) {
  JsonOutput json;
  json.begin_object();
  json.field("schema", std::uint64_t{1});
  json.key("models").begin_array();
  for (const Line& line : lines) {
    const RankCapacity& rank = line.plan.ranks.front();
    json.begin_object(JsonOutput::Break::kNone);
    json.field("name", line.plan.model);
    json.field("attention", line.plan.attention);
    json.field("layers", std::uint64_t{line.plan.layers.size()});
    json.field("growing_bytes_per_token", rank.growing_bytes_per_token);
    json.field("fixed_bytes_per_sequence", rank.fixed_bytes_per_sequence);
    json.field("state_bytes_per_sequence", rank.state_bytes_per_sequence);
    json.field("max_positions", line.max_positions);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace

Command models_command() {
  return {.name = "models",
          .summary = "The models that come with the program",
          .examples =
              "  emblema models\n"
              "  emblema models --json\n",
          .declare = [](CLI::App& app) -> Action {
            auto json = std::make_shared<bool>(false);
            app.add_flag("--json", *json, "JSON with stable keys");
            return [json]() -> Result<Outcome> {
              const auto lines = plan_presets();
              if (!lines) return propagate(lines);
              return Outcome{*json ? as_json(*lines) : as_text(*lines), {}};
            };
          }};
}

}  // namespace emblema
