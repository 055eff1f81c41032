// emblema run: the main job.
#include <algorithm>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/agents/agents.h"
#include "apps/agents/summary.h"
#include "apps/cli/commands.h"
#include "apps/cli/counts.h"
#include "apps/cli/document.h"
#include "apps/cli/model_arguments.h"
#include "apps/cli/progress.h"
#include "apps/cli/report_file.h"
#include "apps/cli/run_output.h"

namespace emblema {
namespace {

constexpr const char* kDefaultModel = "deepseek-v2-lite";
constexpr std::uint32_t kDefaultLayers = 4;
constexpr std::uint64_t kThreadsMax = 1024;

struct RunArguments {
  ModelArguments model;
  std::string agents = "16";
  std::string document = "512";
  std::string decode = "16";
  std::string seed = "1";
  std::string threads;
  std::string isa;
  std::string pool;
  std::string html = "report.html";
  bool json = false;
};

void add_arguments(CLI::App& app, RunArguments* arguments) {
  add_model_arguments(app, ModelCount::kOne, &arguments->model);
  app.get_option("--layers")->description("So many layers of the model; default 4");
  app.add_option("--agents", arguments->agents, "How many; default 16")->type_name("N");
  app.add_option("--document", arguments->document,
                 "Its tokens, or a file whose bytes are its tokens; default 512")
      ->type_name("N|FILE");
  app.add_option("--decode", arguments->decode, "Tokens of each answer; default 16")
      ->type_name("N");
  app.add_option("--seed", arguments->seed, "Of weights and tokens; default 1")->type_name("S");
  app.add_option("--threads", arguments->threads, "For products and attention; default: all cores")
      ->type_name("N");
  app.add_option("--isa", arguments->isa,
                 "Instructions of attention: scalar, avx2, avx512, amx; default: the widest here")
      ->type_name("NAME");
  app.add_option("--pool", arguments->pool, "Memory of the cache; default: what unshared needs")
      ->type_name("SIZE");
  app.add_option("--html", arguments->html, "The page to write; default report.html")
      ->type_name("FILE");
  app.add_flag("--json", arguments->json, "JSON with stable keys instead of the table");
}

Result<agents::AgentsOptions> job_options(const RunArguments& arguments) {
  agents::AgentsOptions options;
  const auto agents = parse_count("--agents", arguments.agents, {1, agents::kAgentsMax});
  if (!agents) return propagate(agents);
  options.workload.agents = static_cast<std::uint32_t>(*agents);
  const auto document = read_document(arguments.document, agents::kDocumentTokensMax);
  if (!document) return propagate(document);
  options.workload.document_tokens = document->count;
  options.workload.document = document->tokens;
  const auto decode = parse_count("--decode", arguments.decode, {1, agents::kDecodeTokensMax});
  if (!decode) return propagate(decode);
  options.workload.decode_tokens = static_cast<std::uint32_t>(*decode);
  const auto seed = parse_count("--seed", arguments.seed, {0, UINT64_MAX});
  if (!seed) return propagate(seed);
  options.workload.seed = *seed;
  options.threads = std::max(1u, std::thread::hardware_concurrency());
  if (!arguments.threads.empty()) {
    const auto threads = parse_count("--threads", arguments.threads, {1, kThreadsMax});
    if (!threads) return propagate(threads);
    options.threads = static_cast<std::uint32_t>(*threads);
  }
  const auto isa = parse_isa_option(arguments.isa);
  if (!isa) return propagate(isa);
  options.isa = *isa;
  if (!arguments.pool.empty()) {
    const auto pool = parse_size("--pool", arguments.pool);
    if (!pool) return propagate(pool);
    options.pool_bytes = *pool;
  }
  return options;
}

Result<ModelGeometry> job_geometry(const RunArguments& arguments) {
  ModelArguments chosen = arguments.model;
  if (chosen.models.empty()) chosen.models = {kDefaultModel};
  auto options = geometry_options(chosen);
  if (!options) return propagate(options);
  if (chosen.profile != to_string(Profile::kNative)) {
    return fail(ErrorCode::Invalid,
                fmt::format("--profile is '{}'; allowed: native, which is what the kernels of this "
                            "command read",
                            chosen.profile));
  }
  const auto model = load_model_config(chosen.models.front());
  if (!model) return propagate(model);
  if (chosen.layers.empty()) options->layers = std::min(kDefaultLayers, model->num_hidden_layers);
  auto geometry = ModelGeometry::from(*model, *options);
  if (!geometry) {
    return fail(geometry.error().code,
                fmt::format("{}: {}", model->name, geometry.error().message));
  }
  return geometry;
}

// What repeats this run: every choice that decides its result.
std::string command_line_of(const ModelGeometry& geometry, const RunArguments& arguments) {
  return fmt::format(
      "emblema run --model {} --layers {} --kv-dtype {} --agents {} --document {} "
      "--decode {} --seed {}",
      arguments.model.models.empty() ? kDefaultModel : arguments.model.models.front(),
      geometry.layers().size(), to_string(geometry.options().kv_dtype), arguments.agents,
      arguments.document, arguments.decode, arguments.seed);
}

std::string failed_checks(const agents::AgentsReport& report) {
  std::string names;
  for (const agents::Check& check : report.checks) {
    if (!check.passed) names += (names.empty() ? "" : "; ") + check.name;
  }
  return names.empty() ? names : "checks failed: " + names;
}

Result<Outcome> run(const RunArguments& arguments) {
  const auto options = job_options(arguments);
  if (!options) return propagate(options);
  const auto geometry = job_geometry(arguments);
  if (!geometry) return propagate(geometry);
  auto file =
      ReportFile::claim("--html", arguments.html);  // a minute's work is not lost for want of it
  if (!file) return propagate(file);
  ProgressBar bar;
  const auto report = agents::run_agents(
      *geometry, *options, [&bar](const std::string& step, double done) { bar.show(step, done); });
  bar.clear();
  if (!report) return propagate(report);
  const auto page = agents::html_page(*report, command_line_of(*geometry, arguments));
  if (!page) return propagate(page);
  Outcome outcome;
  outcome.output = arguments.json ? run_json(*report)
                                  : agents::text_summary(*report, stdout_wants_color()) + "\n" +
                                        fmt::format("The page: {}\n", arguments.html);
  outcome.failure = failed_checks(*report);
  if (const Status written = file->write(*page); !written && outcome.failure.empty()) {
    outcome.failure = written.error().message;
  }
  return outcome;
}

}  // namespace

Command run_command() {
  return {.name = "run",
          .summary = "The main job: agents share one document, every result checked",
          .examples =
              "  emblema run\n"
              "  emblema run --model deepseek-v3 --layers 2\n"
              "  emblema run --model llama-3-8b --agents 4 --document README.md\n"
              "  emblema run --json --html page.html\n",
          .not_in_release = "--persist --disk --tier-host",
          .declare = [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<RunArguments>();
            add_arguments(app, arguments.get());
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace emblema
