// emblema bench: what this program costs on this machine, against what the machine can do.
#include <algorithm>
#include <array>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/cli/bench_output.h"
#include "apps/cli/commands.h"
#include "apps/cli/counts.h"
#include "apps/cli/progress.h"
#include "emblema/block/hash_bench.h"
#include "emblema/block/manager_bench.h"
#include "emblema/contract/bytes.h"
#include "emblema/os/memory.h"

namespace emblema {
namespace {

constexpr std::uint32_t kRoundsMax = 1000;
constexpr std::uint32_t kThreadsMax = 64;
constexpr std::array<std::string_view, 2> kSubjects = {"manager", "hash"};

struct BenchArguments {
  std::vector<std::string> subjects;
  std::string blocks;
  std::string rounds = "5";
  std::string threads = "1";
  bool json = false;
};

void add_arguments(CLI::App& app, BenchArguments* arguments) {
  app.add_option("SUBJECT", arguments->subjects, "manager, hash; default: both")->expected(0, 2);
  app.add_option("--blocks", arguments->blocks,
                 "manager: pools of so many blocks, a list; default 1000,10000,100000,1000000. "
                 "hash: pairs of blocks of 4.5 MB; default 16")
      ->type_name("N,...");
  app.add_option("--rounds", arguments->rounds, "How often each is measured; default 5")
      ->type_name("N");
  app.add_option("--threads", arguments->threads, "manager: that use it at once; default 1")
      ->type_name("N");
  app.add_flag("--json", arguments->json, "JSON with stable keys instead of the table");
}

struct Plan {
  bool manager = false;
  bool hash = false;
  bench::ManagerBenchOptions manager_options;
  bench::HashBenchOptions hash_options;
};

Status choose(const std::vector<std::string>& subjects, Plan* plan) {
  for (const std::string& subject : subjects) {
    if (std::ranges::find(kSubjects, subject) == kSubjects.end()) {
      return fail(ErrorCode::Invalid,
                  fmt::format("SUBJECT is '{}'; allowed: {}", subject, fmt::join(kSubjects, ", ")));
    }
    plan->manager |= subject == "manager";
    plan->hash |= subject == "hash";
  }
  if (subjects.empty()) plan->manager = plan->hash = true;
  return {};
}

Status read_blocks(const std::string& text, Plan* plan) {
  if (text.empty()) {
    plan->manager_options.blocks = {1'000, 10'000, 100'000, 1'000'000};
    const std::uint64_t least = bench::manager_bench_blocks_min(plan->manager_options.threads);
    std::erase_if(plan->manager_options.blocks, [&](std::uint64_t one) { return one < least; });
    return {};
  }
  if (plan->manager == plan->hash) {
    return fail(ErrorCode::Invalid, "--blocks is for one SUBJECT; allowed: manager, or hash");
  }
  if (plan->hash) {
    const auto pairs = parse_count("--blocks", text, {1, bench::kHashBenchPairsMax});
    if (!pairs) return propagate(pairs);
    plan->hash_options.pairs = *pairs;
    return {};
  }
  const CountLimits limits = {bench::manager_bench_blocks_min(plan->manager_options.threads),
                              bench::kManagerBenchBlocksMax};
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto blocks = parse_count("--blocks", rest.substr(0, comma), limits);
    if (!blocks) return propagate(blocks);
    plan->manager_options.blocks.push_back(*blocks);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::ranges::sort(plan->manager_options.blocks);
  return {};
}

// Memory that would be written, against what there is: a refusal now, not the system's later.
Status check_memory(const Plan& plan) {
  constexpr std::uint64_t kBytesPerBlock = 600;  // of metadata: entry, tokens, counts, lists
  const std::uint64_t available = available_memory_bytes();
  std::uint64_t needed = 0;
  if (plan.manager) needed = plan.manager_options.blocks.back() * kBytesPerBlock;
  if (plan.hash) {
    needed = std::max(needed, 2 * plan.hash_options.pairs * bench::kHashBenchBlockBytes);
  }
  if (available == 0 || needed < available) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("--blocks needs {} of memory, {} is available; fewer would fit",
                          format_bytes(needed), format_bytes(available)));
}

Result<Plan> plan_of(const BenchArguments& arguments) {
  Plan plan;
  if (const Status chosen = choose(arguments.subjects, &plan); !chosen) return propagate(chosen);
  const auto rounds = parse_count("--rounds", arguments.rounds, {1, kRoundsMax});
  if (!rounds) return propagate(rounds);
  plan.manager_options.rounds = plan.hash_options.rounds = static_cast<std::uint32_t>(*rounds);
  const auto threads = parse_count("--threads", arguments.threads, {1, kThreadsMax});
  if (!threads) return propagate(threads);
  plan.manager_options.threads = static_cast<std::uint32_t>(*threads);
  if (!plan.manager && *threads > 1) {
    return fail(ErrorCode::Invalid, fmt::format("--threads is {}; allowed with hash: 1", *threads));
  }
  if (const Status read = read_blocks(arguments.blocks, &plan); !read) return propagate(read);
  if (const Status fits = check_memory(plan); !fits) return propagate(fits);
  return plan;
}

Result<Outcome> run(const BenchArguments& arguments) {
  auto plan = plan_of(arguments);
  if (!plan) return propagate(plan);
  ProgressBar bar;
  const auto show = [&bar](std::string_view step, double done) { bar.show(step, done); };
  bench::Report report;
  report.machine.isa = bench::widest_isa();
  report.machine.threads = plan->manager_options.threads;
  const auto keep = [&report](Result<std::vector<bench::Figure>>&& figures) -> Status {
    if (!figures) return propagate(figures);
    std::ranges::move(*figures, std::back_inserter(report.figures));
    return {};
  };
  if (plan->manager) {
    plan->manager_options.progress = show;
    const Status done = keep(bench::bench_manager(plan->manager_options));
    if (!done) return propagate(done);
  }
  if (plan->hash) {
    plan->hash_options.progress = show;
    const Status done = keep(bench::bench_hash(plan->hash_options, &report.machine));
    if (!done) return propagate(done);
  }
  bar.clear();
  return Outcome{arguments.json ? bench_json(report) : bench_text(report, stdout_wants_color()),
                 {}};
}

}  // namespace

Command bench_command() {
  return {.name = "bench",
          .summary = "What the bookkeeping of blocks, and hashing them, cost on this machine",
          .examples =
              "  emblema bench\n"
              "  emblema bench manager --blocks 1000000 --threads 2\n"
              "  emblema bench manager --blocks 1000,10000,100000,1000000,10000000\n"
              "  emblema bench hash --json\n",
          .declare = [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<BenchArguments>();
            add_arguments(app, arguments.get());
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace emblema
