#include "apps/cli/bench_plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "emblema/contract/bytes.h"
#include "emblema/os/memory.h"

namespace emblema {
namespace {

constexpr std::uint32_t kRoundsMax = 1000;
constexpr std::uint32_t kThreadsMax = 64;
constexpr std::array<std::string_view, 3> kSubjects = {"manager", "hash", "attention"};

Status choose(const std::vector<std::string>& subjects, BenchPlan* plan) {
  for (const std::string& subject : subjects) {
    if (std::ranges::find(kSubjects, subject) == kSubjects.end()) {
      return fail(ErrorCode::Invalid,
                  fmt::format("SUBJECT is '{}'; allowed: {}", subject, fmt::join(kSubjects, ", ")));
    }
    plan->manager |= subject == "manager";
    plan->hash |= subject == "hash";
    plan->attention |= subject == "attention";
  }
  if (subjects.empty()) plan->manager = plan->hash = true;
  return {};
}

// Options that mean nothing without the subject that they belong to.
Status refuse_foreign(const BenchArguments& arguments, const BenchPlan& plan) {
  if (!plan.attention) {
    const std::array<std::pair<std::string_view, const std::string*>, 5> options = {
        {{"--isa", &arguments.isa},
         {"--context", &arguments.context},
         {"--prefill", &arguments.prefill},
         {"--caches", &arguments.caches},
         {"--case", &arguments.cases}}};
    for (const auto& [name, value] : options) {
      if (!value->empty()) {
        return fail(ErrorCode::Invalid, fmt::format("{} is for the SUBJECT attention", name));
      }
    }
  }
  if (!arguments.blocks.empty() && plan.manager == plan.hash) {
    return fail(ErrorCode::Invalid, "--blocks is for one SUBJECT; allowed: manager, or hash");
  }
  return {};
}

Status read_counts(const BenchArguments& arguments, BenchPlan* plan) {
  if (!arguments.rounds.empty()) {
    const auto rounds = parse_count("--rounds", arguments.rounds, {1, kRoundsMax});
    if (!rounds) return propagate(rounds);
    plan->manager_options.rounds = plan->hash_options.rounds = plan->attention_options.rounds =
        static_cast<std::uint32_t>(*rounds);
  }
  const auto threads = parse_count("--threads", arguments.threads, {1, kThreadsMax});
  if (!threads) return propagate(threads);
  plan->threads = static_cast<std::uint32_t>(*threads);
  plan->manager_options.threads = plan->attention_options.threads = plan->threads;
  if (!plan->manager && !plan->attention && *threads > 1) {
    return fail(ErrorCode::Invalid, fmt::format("--threads is {}; allowed with hash: 1", *threads));
  }
  return {};
}

Status read_blocks(const std::string& text, BenchPlan* plan) {
  if (text.empty()) {
    plan->manager_options.blocks = {1'000, 10'000, 100'000, 1'000'000};
    const std::uint64_t least = bench::manager_bench_blocks_min(plan->manager_options.threads);
    std::erase_if(plan->manager_options.blocks, [&](std::uint64_t one) { return one < least; });
    return {};
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

Status read_cases(std::string_view rest, BenchPlan* plan) {
  const auto known = bench::attention_bench_cases();
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    if (std::ranges::find(known, one) == known.end()) {
      return fail(ErrorCode::Invalid,
                  fmt::format("--case is '{}'; allowed: {}", one, fmt::join(known, ", ")));
    }
    plan->attention_options.cases.emplace_back(one);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return fail(ErrorCode::Invalid, "--case ends with a comma");
  }
  return {};
}

Status read_isa(const std::string& text, BenchPlan* plan) {
  plan->attention_options.isa = best_isa();
  const auto isa = parse_isa_option(text);
  if (!isa) return propagate(isa);
  if (*isa) plan->attention_options.isa = **isa;
  return {};
}

Status read_attention(const BenchArguments& arguments, BenchPlan* plan) {
  using Limits = bench::AttentionBenchLimits;
  bench::AttentionBenchOptions& options = plan->attention_options;
  if (Status read = read_isa(arguments.isa, plan); !read) return read;
  if (Status read = read_cases(arguments.cases, plan); !read) return read;
  if (!arguments.context.empty()) {
    const auto context = parse_token_count("--context", arguments.context,
                                           {Limits::kContextMin, Limits::kContextMax});
    if (!context) return propagate(context);
    options.context = *context;
  }
  if (!arguments.prefill.empty()) {
    const auto prefill =
        parse_token_count("--prefill", arguments.prefill, {1, Limits::kPrefillMax});
    if (!prefill) return propagate(prefill);
    options.prefill = *prefill;
  }
  if (!arguments.caches.empty()) {
    const auto caches = parse_size("--caches", arguments.caches);
    if (!caches) return propagate(caches);
    options.cache_bytes = *caches;
  }
  return {};
}

// The default of --caches is made to fit; what was asked for is not.
Status fit_attention(bool is_asked, std::uint64_t available,
                     bench::AttentionBenchOptions* options) {
  while (!is_asked && options->cache_bytes > 64 * kMiB &&
         bench::attention_bench_bytes(*options) >= available) {
    options->cache_bytes /= 2;
  }
  const std::uint64_t needed = bench::attention_bench_bytes(*options);
  if (needed < available) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("attention needs {} of memory, {} is available; a smaller --context, "
                          "--prefill or --caches would fit",
                          format_bytes(needed), format_bytes(available)));
}

// Memory that would be written, against what there is: a refusal now, not the system's later.
Status check_memory(const BenchArguments& arguments, BenchPlan* plan) {
  constexpr std::uint64_t kBytesPerBlock = 600;  // of metadata: entry, tokens, counts, lists
  const std::uint64_t available = available_memory_bytes();
  if (available == 0) return {};
  std::uint64_t needed = 0;
  if (plan->manager) needed = plan->manager_options.blocks.back() * kBytesPerBlock;
  if (plan->hash) {
    needed = std::max(needed, 2 * plan->hash_options.pairs * bench::kHashBenchBlockBytes);
  }
  if (needed >= available) {
    return fail(ErrorCode::Invalid,
                fmt::format("--blocks needs {} of memory, {} is available; fewer would fit",
                            format_bytes(needed), format_bytes(available)));
  }
  if (!plan->attention) return {};
  return fit_attention(!arguments.caches.empty(), available, &plan->attention_options);
}

}  // namespace

Result<BenchPlan> plan_bench(const BenchArguments& arguments) {
  BenchPlan plan;
  if (const Status chosen = choose(arguments.subjects, &plan); !chosen) return propagate(chosen);
  if (const Status read = read_counts(arguments, &plan); !read) return propagate(read);
  if (const Status own = refuse_foreign(arguments, plan); !own) return propagate(own);
  if (const Status read = read_blocks(arguments.blocks, &plan); !read) return propagate(read);
  if (plan.attention) {
    if (const Status read = read_attention(arguments, &plan); !read) return propagate(read);
  }
  if (const Status fits = check_memory(arguments, &plan); !fits) return propagate(fits);
  return plan;
}

}  // namespace emblema
