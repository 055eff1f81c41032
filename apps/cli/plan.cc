// emblema plan: what a model's cache takes, and how much of it fits.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/commands.h"
#include "apps/cli/plan_arguments.h"
#include "apps/cli/plan_files.h"
#include "apps/cli/plan_output.h"
#include "apps/cli/plan_peers.h"
#include "apps/cli/reproduce_output.h"
#include "emblema/model/weight_index.h"

namespace emblema {
namespace {

// One token, a common prompt, and 128k or all that the model is made for.
std::vector<std::uint64_t> default_lengths(std::uint64_t max_positions) {
  constexpr std::uint64_t kPrompt = 8192;
  constexpr std::uint64_t kLong = 131'072;
  const std::uint64_t longest = max_positions == 0 ? kLong : std::min(kLong, max_positions);
  std::vector<std::uint64_t> lengths = {1};
  if (kPrompt < longest) lengths.push_back(kPrompt);
  if (longest > 1) lengths.push_back(longest);
  return lengths;
}

// The checkpoint's own size, where its files lie beside the config and nothing else was said.
Status read_weights(const std::string& source, const PlanArguments& arguments,
                    Deployment* deployment) {
  if (!arguments.weights.empty() && arguments.weights != "auto") return {};
  const auto index = read_weight_index(source);
  if (!index) return propagate(index);
  if (!*index) return {};
  if ((*index)->total_bytes > 0) deployment->weight_bytes = (*index)->total_bytes;
  deployment->weights_source = (*index)->file;  // also of an index that gives no size
  return {};
}

// What the options leave to the model.
Deployment completed(Deployment deployment, const ModelConfig& model) {
  if (deployment.at_tokens.empty()) deployment.at_tokens = default_lengths(model.max_positions);
  if (deployment.context_tokens == 0 && model.max_positions == 0) {
    deployment.context_tokens =
        *std::max_element(deployment.at_tokens.begin(), deployment.at_tokens.end());
  }
  return deployment;
}

Result<CapacityPlan> plan_model(const ModelConfig& model, const Deployment& deployment) {
  auto plan = plan_capacity(model, deployment);
  if (plan) return plan;
  return fail(plan.error().code, fmt::format("{}: {}", model.name, plan.error().message));
}

// Ranks that do not divide the heads leave a row with the reason; a length fits or is an error.
Result<std::vector<SweepRow>> sweep_rows(const PlanAnswer& answer, const Sweep& sweep) {
  std::vector<SweepRow> rows;
  for (const std::uint64_t value : sweep.values) {
    Deployment one = answer.deployment;
    if (sweep.axis == SweepAxis::kTensor) {
      one.parallel.tensor = static_cast<std::uint32_t>(value);
      one.gpus = 0;
    } else {
      one.context_tokens = value;
    }
    one.at_tokens = {answer.plan.step_context_tokens};
    if (sweep.axis == SweepAxis::kContext) one.at_tokens = {value};
    auto plan = plan_model(answer.model, one);
    if (!plan && sweep.axis == SweepAxis::kContext) return propagate(plan);
    if (plan) {
      rows.push_back({value, std::move(*plan), {}});
    } else {
      rows.push_back({value, {}, plan.error().message});
    }
  }
  return rows;
}

// A refusal of the one engine that was asked for is an error; among others it is a row.
Status ask_peers(const PlanArguments& arguments, PlanAnswer* answer) {
  const auto asked = peers_asked(arguments);
  if (!asked) return propagate(asked);
  if (asked->engine) {
    answer->peers.push_back(ask_peer(*asked->engine, *answer, asked->kv_dtype));
    if (!answer->peers.back().plan) {
      return fail(ErrorCode::Invalid,
                  fmt::format("{}: {}", answer->model.name, answer->peers.back().refusal));
    }
  }
  for (const PeerEngine engine : asked->compare) {
    if (engine == asked->engine) continue;
    answer->peers.push_back(ask_peer(engine, *answer, asked->kv_dtype));
  }
  return {};
}

// The plan beside a sweep over ranks, where none was asked for otherwise, is that of the first that
// fits.
Result<CapacityPlan> plan_beside(const Sweep& sweep, const PlanArguments& arguments,
                                 const ModelConfig& model, Deployment* deployment) {
  const bool is_free =
      sweep.axis == SweepAxis::kTensor && arguments.tensor.empty() && arguments.gpus.empty();
  if (!is_free) return plan_model(model, *deployment);
  std::optional<Error> first;  // of the fewest ranks
  for (const std::uint64_t ranks : sweep.values) {
    deployment->parallel.tensor = static_cast<std::uint32_t>(ranks);
    auto plan = plan_model(model, *deployment);
    if (plan) return plan;
    if (!first) first = plan.error();
  }
  return tl::make_unexpected(*first);
}

Result<PlanAnswer> answer(const std::string& source, const PlanArguments& arguments,
                          Deployment deployment) {
  auto model = load_model_config(source);
  if (!model) return propagate(model);
  if (const auto ok = read_weights(source, arguments, &deployment); !ok) return propagate(ok);
  deployment = completed(std::move(deployment), *model);
  const auto sweep = sweep_of(arguments);
  if (!sweep) return propagate(sweep);
  auto plan = plan_beside(*sweep, arguments, *model, &deployment);
  if (!plan) return propagate(plan);
  PlanAnswer answer{
      std::move(*model), std::move(deployment), std::move(*plan), sweep->axis, {}, {}};
  auto rows = sweep_rows(answer, *sweep);
  if (!rows) return propagate(rows);
  answer.sweep = std::move(*rows);
  if (const auto ok = ask_peers(arguments, &answer); !ok) return propagate(ok);
  return answer;
}

std::string in_json(std::span<const PlanAnswer> answers,
                    std::span<const PlannedCrossover> crossovers, const PlanView& view) {
  JsonOutput json;
  if (answers.size() > 1) json.begin_array();
  for (const PlanAnswer& one : answers) write_plan(one, view, crossovers, &json);
  if (answers.size() > 1) json.end_array();
  return json.text();
}

std::string in_words(std::span<const PlanAnswer> answers,
                     std::span<const PlannedCrossover> crossovers, const PlanView& view) {
  std::string text;
  for (const PlanAnswer& one : answers) {
    if (!text.empty()) text += '\n';
    const bool is_peers = view.engine != "emblema";
    text += is_peers ? peer_text(*one.peers.front().plan, one) : plan_text(one, view);
    if (one.peers.size() > (is_peers ? 1u : 0u)) text += "\n" + comparison_text(one.peers, one);
  }
  return text + crossovers_text(crossovers);
}

// What was typed beside --reproduce would change nothing: the articles name their models.
Status check_alone(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string& name = option->get_lnames().front();
    if (name == "reproduce" || name == "json") continue;
    return fail(ErrorCode::Invalid,
                fmt::format("--reproduce is given with --{} {}; allowed: alone or with --json",
                            name, option->results().front()));
  }
  return {};
}

// Views of Emblema's own plan have no meaning in front of another engine's.
Status check_views(const PlanArguments& arguments) {
  if (arguments.engine == "emblema" || arguments.json) return {};
  for (const auto& [option, is_asked] :
       {std::pair{"--sweep", !arguments.sweep.empty()}, std::pair{"--explain", arguments.explain},
        std::pair{"--per-layer", arguments.per_layer}}) {
    if (!is_asked) continue;
    return fail(ErrorCode::Invalid,
                fmt::format("--engine is '{}' with {}, which tells of Emblema's plan; allowed: "
                            "--compare {}, or --json",
                            arguments.engine, option, arguments.engine));
  }
  return {};
}

Result<Outcome> reproduce(const PlanArguments& arguments, const CLI::App& app) {
  if (const auto ok = check_alone(app); !ok) return propagate(ok);
  const auto figures = reproduce_published_figures();
  if (!figures) return propagate(figures);
  if (!arguments.json) return Outcome{reproduce_text(*figures), {}};
  JsonOutput json;
  write_reproduce(*figures, &json);
  return Outcome{json.text(), {}};
}

Result<Outcome> plan(const PlanArguments& arguments, const CLI::App& app) {
  if (arguments.reproduce) return reproduce(arguments, app);
  if (const auto ok = check_views(arguments); !ok) return propagate(ok);
  const auto deployment = deployment_of(arguments);
  if (!deployment) return propagate(deployment);
  auto files = PlanFiles::claim(arguments);
  if (!files) return propagate(files);
  std::vector<PlanAnswer> answers;
  for (const std::string& source : arguments.model.models) {
    auto one = answer(source, arguments, *deployment);
    if (!one) return propagate(one);
    answers.push_back(std::move(*one));
  }
  const PlanView view{arguments.per_layer, arguments.explain, arguments.engine};
  const auto crossovers = crossovers_of(answers);
  if (!crossovers) return propagate(crossovers);
  const Status written = files->write(answers, view, command_as_typed(app));
  if (!written && written.error().code != ErrorCode::Io) return propagate(written);
  // A disk that is full takes the page, not the answer.
  const std::string failure = written ? std::string() : written.error().message;
  if (arguments.json) return Outcome{in_json(answers, *crossovers, view), failure};
  return Outcome{in_words(answers, *crossovers, view), failure};
}

}  // namespace

Command plan_command() {
  return {.name = "plan",
          .summary = "What a model's cache takes, and how much of it fits",
          .examples =
              "  emblema plan deepseek-v3\n"
              "  emblema plan deepseek-v3 --gpu h200 --gpus 8 --context 128k\n"
              "  emblema plan deepseek-v3 llama-3-70b --at 1,8k,128k --json\n"
              "  emblema plan path/to/config.json --kv-dtype fp8_ds_mla --pool 40GiB\n"
              "  emblema plan deepseek-v4-flash --profile v4 --at 128k\n"
              "  emblema plan deepseek-v3 --tp 8 --dcp 8 --pool 40GiB --explain\n"
              "  emblema plan gpt-oss-120b --pool 40GiB --sweep context=8k..128k\n"
              "  emblema plan llama-3-70b deepseek-v3 --gpu h100 --pool 40GiB --sweep tp=1..16\n"
              "  emblema plan deepseek-v3.2 --gpu h200 --gpus 8 --compare vllm,sglang\n"
              "  emblema plan deepseek-v3 llama-3-70b --gpu h200 --gpus 8 --html plan.html\n"
              "  emblema plan --reproduce\n",
          .declare = [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<PlanArguments>();
            add_plan_arguments(app, arguments.get());
            return [arguments, &app] { return plan(*arguments, app); };  // app outlives it
          }};
}

}  // namespace emblema
