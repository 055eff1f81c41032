// emblema bench: what this program costs on this machine, against what the machine can do.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/bench_output.h"
#include "apps/cli/bench_plan.h"
#include "apps/cli/commands.h"
#include "apps/cli/progress.h"

namespace emblema {
namespace {

void add_arguments(CLI::App& app, BenchArguments* arguments) {
  app.add_option("SUBJECT", arguments->subjects,
                 "manager, hash, attention; default: manager and hash. attention takes minutes "
                 "and runs only where it is named")
      ->expected(0, 3);
  app.add_option("--blocks", arguments->blocks,
                 "manager: pools of so many blocks, a list; default 1000,10000,100000,1000000. "
                 "hash: pairs of blocks of 4.5 MB; default 16")
      ->type_name("N,...");
  app.add_option("--rounds", arguments->rounds,
                 "How often each is measured; default 5, of attention 7")
      ->type_name("N");
  app.add_option("--threads", arguments->threads,
                 "manager, attention: that work at once; default 1")
      ->type_name("N");
  app.add_option("--isa", arguments->isa,
                 "attention: scalar, avx2, avx512 or amx; default: the widest of this machine")
      ->type_name("NAME");
  app.add_option("--context", arguments->context,
                 "attention: tokens of the cases with 128 heads, a fourth of the others'; "
                 "default 16k")
      ->type_name("TOKENS");
  app.add_option("--prefill", arguments->prefill,
                 "attention: new tokens, over nothing and over four times as many; default 2k, "
                 "or fewer, so that a round takes seconds")
      ->type_name("TOKENS");
  app.add_option("--caches", arguments->caches,
                 "attention: bytes of rows of each kind that cases rotate over; default 1280MiB, "
                 "or what fits")
      ->type_name("SIZE");
  app.add_option("--case", arguments->cases,
                 fmt::format("attention: only these, a list of {}",
                             fmt::join(bench::attention_bench_cases(), ", ")))
      ->type_name("NAME,...");
  app.add_flag("--json", arguments->json, "JSON with stable keys instead of the table");
}

// Runs what the plan says, one subject after the other.
Status measure(BenchPlan& plan, const bench::Progress& show, bench::Report* report) {
  const auto keep = [report](Result<std::vector<bench::Figure>>&& figures) -> Status {
    if (!figures) return propagate(figures);
    std::ranges::move(*figures, std::back_inserter(report->figures));
    return {};
  };
  if (plan.manager) {
    plan.manager_options.progress = show;
    if (Status done = keep(bench::bench_manager(plan.manager_options)); !done) return done;
  }
  if (plan.hash) {
    plan.hash_options.progress = show;
    if (Status done = keep(bench::bench_hash(plan.hash_options, &report->machine)); !done) {
      return done;
    }
  }
  if (plan.attention) {
    plan.attention_options.progress = show;
    if (Status done =
            keep(bench::bench_attention(plan.attention_options, &report->machine, &report->notes));
        !done) {
      return done;
    }
  }
  return {};
}

Result<Outcome> run(const BenchArguments& arguments) {
  auto plan = plan_bench(arguments);
  if (!plan) return propagate(plan);
  ProgressBar bar;
  const auto show = [&bar](std::string_view step, double done) { bar.show(step, done); };
  bench::Report report;
  report.machine.isa = bench::widest_isa();
  report.machine.threads = plan->threads;
  const Status done = measure(*plan, show, &report);
  bar.clear();
  if (!done) return propagate(done);
  return Outcome{arguments.json ? bench_json(report) : bench_text(report, stdout_wants_color()),
                 {}};
}

}  // namespace

Command bench_command() {
  return {.name = "bench",
          .summary = "What bookkeeping, hashing and attention cost on this machine",
          .examples =
              "  emblema bench\n"
              "  emblema bench manager --blocks 1000000 --threads 2\n"
              "  emblema bench manager --blocks 1000,10000,100000,1000000,10000000\n"
              "  emblema bench hash --json\n"
              "  emblema bench attention\n"
              "  emblema bench attention --isa avx2 --threads 2 --case latent128,latent16\n",
          .declare = [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<BenchArguments>();
            add_arguments(app, arguments.get());
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace emblema
