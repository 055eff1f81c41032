#include "apps/cli/plan_files.h"

#include <algorithm>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/plan_peers.h"
#include "emblema/plan/roofline.h"

namespace emblema {
namespace {

Result<PlanChart> parse_chart(const PlanArguments& arguments) {
  const std::string& name = arguments.chart;
  if (name.empty() || name == "bytes") return PlanChart::kBytes;
  if (name == "capacity") return PlanChart::kCapacity;
  if (name == "roofline") return PlanChart::kRoofline;
  return fail(ErrorCode::Invalid,
              fmt::format("--chart is '{}'; allowed: bytes, capacity, roofline", name));
}

Result<std::optional<ReportFile>> claim_one(std::string_view option, const std::string& path) {
  if (path.empty()) return std::optional<ReportFile>{};
  auto file = ReportFile::claim(option, path);
  if (!file) return propagate(file);
  return std::optional<ReportFile>(std::move(*file));
}

// One rank of `degree`, or nothing where its heads do not divide.
std::optional<RooflinePicture::Point> point_of(const PlanAnswer& answer, std::uint32_t degree) {
  Deployment one = answer.deployment;
  one.parallel = {.tensor = degree};
  const auto rank = rank_geometry(answer.model, one, {0, one.layers, true});
  if (!rank) return std::nullopt;
  const auto step = attention_step(*rank, answer.plan.step_context_tokens);
  if (!step) return std::nullopt;
  const auto intensity = intensity_of(*step);
  if (!intensity || intensity->numerator() == 0) return std::nullopt;
  return RooflinePicture::Point{fmt::format("TP {}", degree), intensity->approximate()};
}

std::optional<RooflinePicture> roofline_of(const PlanAnswer& answer) {
  if (!answer.plan.ranks.front().roofline) return std::nullopt;
  const Hardware& hardware = *answer.deployment.hardware;
  RooflinePicture picture{
      .hardware = hardware.name,
      .flop_per_second = static_cast<double>(*hardware.bf16_flops),
      .bytes_per_second = static_cast<double>(*hardware.bandwidth_bytes_per_second)};
  std::vector<std::uint32_t> degrees = {1, 2, 4, 8, 16, answer.deployment.parallel.tensor};
  std::sort(degrees.begin(), degrees.end());
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  for (const std::uint32_t degree : degrees) {
    if (auto point = point_of(answer, degree)) picture.points.push_back(std::move(*point));
  }
  // Groups of requests and dealt-out tokens move a rank off its degree's place.
  const Parallelism& parallel = answer.deployment.parallel;
  const double own = answer.plan.ranks.front().flop_per_byte.approximate();
  if (own > 0 && (parallel.data_attention > 1 || parallel.decode_context > 1)) {
    picture.points.push_back({"this plan", own});
  }
  if (picture.points.empty()) return std::nullopt;
  return picture;
}

PlanPage page_of(std::span<const PlanAnswer> answers, const PlanView& view,
                 const std::string& command) {
  PlanPage page{.plans = {}, .per_layer = view.per_layer, .command = command};
  for (const PlanAnswer& answer : answers) {
    PlanPicture picture{&answer.model, &answer.plan, answer.deployment, plan_headline(answer),
                        roofline_of(answer)};
    if (!answer.peers.empty()) {
      picture.engines = comparison_table(answer.peers, answer);
      picture.engine_lines = comparison_lines(answer.peers);
      for (std::string& line : log_lines(answer.peers)) {
        picture.engine_lines.push_back(std::move(line));
      }
    }
    page.plans.push_back(std::move(picture));
    // Each point of a curve is for the plan's length, not for the longest that fits there.
    Deployment& drawn = page.plans.back().deployment;
    if (drawn.context_tokens == 0) drawn.context_tokens = answer.plan.context_tokens;
  }
  return page;
}

Status write_one(std::optional<ReportFile>* file, const Result<std::string>& content) {
  if (!content) return propagate(content);
  return (*file)->write(*content);
}

bool needs_quotes(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+%@";
  return word.empty() || word.find_first_not_of(kPlain) != std::string::npos;
}

std::string quoted(const std::string& word) {
  if (!needs_quotes(word)) return word;
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += R"('\'')";
    } else {
      text += c;
    }
  }
  return text + "'";
}

}  // namespace

Result<PlanFiles> PlanFiles::claim(const PlanArguments& arguments) {
  const auto chart = parse_chart(arguments);
  if (!chart) return propagate(chart);
  if (!arguments.chart.empty() && arguments.svg.empty()) {
    return fail(ErrorCode::Invalid, "--chart is given without --svg; allowed: with --svg FILE");
  }
  if (!arguments.svg.empty() && arguments.svg == arguments.html) {
    return fail(ErrorCode::Invalid, fmt::format("--svg is {}, which is --html's file; allowed: two "
                                                "files",
                                                arguments.svg));
  }
  auto html = claim_one("--html", arguments.html);
  if (!html) return propagate(html);
  auto svg = claim_one("--svg", arguments.svg);
  if (!svg) return propagate(svg);
  return PlanFiles(std::move(*html), std::move(*svg), *chart);
}

Status PlanFiles::write(std::span<const PlanAnswer> answers, const PlanView& view,
                        const std::string& command) {
  if (!html_ && !svg_) return {};
  const PlanPage page = page_of(answers, view, command);
  if (svg_) {
    if (const auto ok = write_one(&svg_, plan_svg(page, chart_)); !ok) return ok;
  }
  if (html_) return write_one(&html_, plan_html(page));
  return {};
}

std::string command_as_typed(const CLI::App& app) {
  std::string text = app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const bool is_flag = option->get_items_expected_max() == 0;
    const bool is_model = option->get_positional();
    if (!is_model) text += " --" + option->get_lnames().front();
    if (is_flag) continue;
    for (const std::string& value : option->results()) text += " " + quoted(value);
  }
  return text;
}

}  // namespace emblema
