// The page and the picture that `emblema plan` writes: claimed before the work, written behind it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "apps/cli/plan_arguments.h"
#include "apps/cli/plan_output.h"
#include "apps/cli/plan_report.h"
#include "apps/cli/report_file.h"

namespace CLI {
class App;
}

namespace emblema {

class PlanFiles {
 public:
  // Of --html, --svg and --chart. Invalid: a chart that is none, one without --svg. Errors as of
  // ReportFile::claim.
  static Result<PlanFiles> claim(const PlanArguments& arguments);

  // Nothing where none was asked for. Invalid: a roofline without a GPU's speeds. Io: the disk.
  Status write(std::span<const PlanAnswer> answers, const PlanView& view,
               const std::string& command);

 private:
  PlanFiles(std::optional<ReportFile> html, std::optional<ReportFile> svg, PlanChart chart)
      : html_(std::move(html)), svg_(std::move(svg)), chart_(chart) {}

  std::optional<ReportFile> html_;
  std::optional<ReportFile> svg_;
  PlanChart chart_ = PlanChart::kBytes;
};

// "emblema plan deepseek-v3 --gpu h100": what was parsed, in the order of the options' declaration.
std::string command_as_typed(const CLI::App& app);

}  // namespace emblema
