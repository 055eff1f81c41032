// emblema layout: where each byte of a block sits.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/commands.h"
#include "apps/cli/layout_output.h"
#include "apps/cli/model_arguments.h"

namespace emblema {
namespace {

struct LayoutArguments {
  ModelArguments model;
  bool json = false;
};

Result<Outcome> layout(const LayoutArguments& arguments) {
  const auto options = geometry_options(arguments.model);
  if (!options) return propagate(options);
  const auto model = load_model_config(arguments.model.models.front());
  if (!model) return propagate(model);
  const auto profile = profile_of(arguments.model);
  if (!profile) return propagate(profile);
  const auto geometry = ModelGeometry::from(*model, *options);
  if (!geometry) {
    return fail(geometry.error().code,
                fmt::format("{}: {}", model->name, geometry.error().message));
  }
  const auto bytes = ModelLayout::with_profile(*geometry, *profile);
  if (!bytes) {
    return fail(bytes.error().code, fmt::format("{}: {}", model->name, bytes.error().message));
  }
  return Outcome{arguments.json ? layout_json(*geometry, *bytes) : layout_text(*geometry, *bytes),
                 {}};
}

}  // namespace

Command layout_command() {
  return {.name = "layout",
          .summary = "Where each byte of a block sits",
          .examples =
              "  emblema layout deepseek-v2-lite\n"
              "  emblema layout path/to/config.json --kv-dtype fp8_ds_mla\n"
              "  emblema layout deepseek-v4-flash --profile v4 --indexer-dtype fp8\n"
              "  emblema layout llama-3-8b --profile ggml --kv-dtype q4_0 --json\n",
          .not_in_release = "--tp --pp --pp-layers --engine --html --svg",
          .declare = [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<LayoutArguments>();
            add_model_arguments(app, ModelCount::kOne, &arguments->model);
            add_state_arguments(app, &arguments->model);
            app.add_flag("--json", arguments->json, "JSON with stable keys");
            return [arguments] { return layout(*arguments); };
          }};
}

}  // namespace emblema
