#include "emblema/layer/attention_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include <dnnl.h>
#include <fmt/format.h>

#include "emblema/layer/attention_case_bench.h"
#include "emblema/layer/attention_gemm_bench.h"
#include "emblema/layer/attention_run_bench.h"
#include "emblema/layer/machine_limits_bench.h"
#include "emblema/os/thread_pool.h"

namespace emblema::bench {
namespace {

constexpr std::uint64_t kPrefillTokens = 2048;
constexpr std::uint64_t kPrefillTokensMin = 32;
constexpr double kPrefillRoundSeconds = 10;  // about, of all that a round does for prefill
constexpr std::uint32_t kPrefillHeads = 128;

std::vector<AttentionCase> chosen_cases(const AttentionBenchOptions& options,
                                        std::uint64_t prefill) {
  auto cases = attention_cases({options.context, prefill});
  std::erase_if(cases, [&](const AttentionCase& one) {
    return !options.cases.empty() &&
           std::ranges::find(options.cases, one.key) == options.cases.end();
  });
  return cases;
}

// Pages of each store, 0 where no case reads it.
std::array<std::uint64_t, kStoredAsCount> store_pages(const std::vector<AttentionCase>& cases,
                                                      std::uint64_t cache_bytes) {
  std::array<std::uint64_t, kStoredAsCount> pages{};
  for (const AttentionCase& one : cases) {
    const std::uint64_t asked = cache_bytes / (kPageRows * row_bytes_of(one.stored));
    auto& store = pages[static_cast<std::size_t>(one.stored)];
    store = std::max({store, asked, pages_of(one)});
  }
  return pages;
}

bool has_prefill(const std::vector<AttentionCase>& cases) {
  return std::ranges::any_of(cases, [](const AttentionCase& one) { return one.is_prefill; });
}

std::uint64_t expansion_floats() {
  return std::uint64_t{kPrefillHeads} * kLatentDim * (kContentDim + kExpandedValueDim);
}

// The most new tokens with which a round takes seconds: both forms of ours, and the cheaper one of
// oneDNN, at half of what the processor computes.
std::uint64_t affordable_prefill(const AttentionBenchOptions& options, double flop_per_second) {
  std::uint64_t tokens = kPrefillTokens;
  for (; tokens > kPrefillTokensMin; tokens /= 2) {
    double flop = 0;
    for (const AttentionCase& one : chosen_cases(options, tokens)) {
      if (!one.is_prefill) continue;
      const double absorbed = flop_of(one);
      const double expanded = expanded_flop_of(one);
      flop += absorbed + expanded + std::min(absorbed, expanded);
    }
    if (flop <= kPrefillRoundSeconds * flop_per_second / 2) break;
  }
  return tokens;
}

// Everything that a run holds.
class AttentionBench {
 public:
  explicit AttentionBench(const AttentionBenchOptions& options) : options_(options) {}

  Status open() {
    if (options_.threads > 1) {
      auto pool = ThreadPool::open(options_.threads);
      if (!pool) return propagate(pool);
      pool_ = std::move(*pool);
    }
    auto limits = MachineLimits::open(options_.isa, pool_.get());
    if (!limits) return propagate(limits);
    limits_ = *limits;
    prefill_ = options_.prefill.value_or(
        affordable_prefill(options_, limits_.first_sight_flop_per_second()));
    const std::vector<AttentionCase> cases = chosen_cases(options_, prefill_);
    if (Status opened = open_stores(cases); !opened) return opened;
    if (Status opened = open_tools(cases); !opened) return opened;
    for (const AttentionCase& one : cases) {
      runs_.push_back(std::make_unique<CaseRun>(one, *store_of(one), &tools_));
    }
    return {};
  }

  Status check() {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      show(fmt::format("checking {}", runs_[i]->what().name),
           static_cast<double>(i) / static_cast<double>(runs_.size()));
      if (Status same = runs_[i]->check(); !same) return same;
    }
    return {};
  }

  Result<std::vector<Figure>> measure(Machine* machine) {
    std::vector<Subject> subjects = limits_.subjects(largest_memory());
    const std::size_t limit_count = subjects.size();
    for (const auto& run : runs_) {
      for (const CaseRun::Part part : run->parts()) subjects.push_back(run->subject(part));
    }
    const auto rounds = run_rounds(subjects, options_.rounds, options_.progress);
    if (!rounds) return propagate(rounds);
    std::vector<double> medians;
    for (const auto& seconds : *rounds) medians.push_back(median(seconds));
    limits_.set({medians.begin(), medians.begin() + static_cast<std::ptrdiff_t>(limit_count)},
                machine);
    const double peak =
        options_.isa == Isa::kAmx ? *machine->amx_flop_per_second : *machine->fma_flop_per_second;
    std::vector<Figure> figures;
    std::size_t next = limit_count;
    for (const auto& run : runs_) {
      std::map<CaseRun::Part, double> seconds;
      for (const CaseRun::Part part : run->parts()) seconds[part] = medians[next++];
      figures.push_back(run->figure(seconds, peak));
    }
    compare_with_contiguous(&figures);
    return figures;
  }

  void add_notes(std::vector<std::string>* notes) const {
    notes->push_back(
        fmt::format("oneDNN {}.{}.{} multiplies {} numbers; gathering rows from their "
                    "pages is in its time.",
                    dnnl_version()->major, dnnl_version()->minor, dnnl_version()->patch,
                    gemm_->is_bf16() ? "bf16" : "fp32"));
    bool has_huge_pages = true;
    std::string sizes;
    for (const auto& store : stores_) {
      if (store == nullptr) continue;
      sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", format_bytes(store->bytes()));
      has_huge_pages = has_huge_pages && store->has_huge_pages();
    }
    notes->push_back(fmt::format(
        "Cold rows are of {}, {}; cases rotate over them.", sizes,
        has_huge_pages ? "in pages of 2 MiB where the kernel has them" : "in small pages"));
    if (!options_.prefill && prefill_ < kPrefillTokens && has_prefill(what_runs())) {
      notes->push_back(
          fmt::format("Prefill is of {} tokens, over {}: {} over {} would take minutes "
                      "a round here (--prefill).",
                      prefill_, 4 * prefill_, kPrefillTokens, 4 * kPrefillTokens));
    }
    for (const std::string& reason : missing_isas()) {
      notes->push_back(fmt::format("Not measured: {}.", reason));
    }
  }

 private:
  void show(const std::string& step, double done) const {
    if (options_.progress) options_.progress(step, done);
  }

  const std::unique_ptr<RowStore>& store_of(const AttentionCase& one) const {
    return stores_[static_cast<std::size_t>(one.stored)];
  }

  std::vector<AttentionCase> what_runs() const {
    std::vector<AttentionCase> cases;
    for (const auto& run : runs_) cases.push_back(run->what());
    return cases;
  }

  ConstByteSpan largest_memory() const {
    ConstByteSpan largest;
    for (const auto& store : stores_) {
      if (store != nullptr && store->bytes() > largest.size()) largest = store->memory();
    }
    return largest;
  }

  Status open_stores(const std::vector<AttentionCase>& cases) {
    const auto pages = store_pages(cases, options_.cache_bytes);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (pages[i] == 0) continue;
      show("filling pages", static_cast<double>(i) / static_cast<double>(pages.size()));
      auto store = RowStore::open(static_cast<StoredAs>(i), pages[i]);
      if (!store) return propagate(store);
      stores_[i] = std::move(*store);
    }
    return {};
  }

  // `count` numbers of the run's own.
  Result<std::span<float>> floats(std::uint64_t count) {
    auto memory = MemoryRegion::map(count * sizeof(float));
    if (!memory) return propagate(memory);
    floats_.push_back(std::move(*memory));
    return std::span(reinterpret_cast<float*>(floats_.back().data()), count);
  }

  Status open_tools(const std::vector<AttentionCase>& cases) {
    CaseFloats sizes;
    for (const AttentionCase& one : cases) sizes.include(one);
    const std::uint64_t weights = has_prefill(cases) ? expansion_floats() : 0;
    std::array<std::span<float>, 6> parts;
    std::size_t next = 0;
    for (const std::uint64_t count :
         {sizes.queries, sizes.expanded_queries, weights, sizes.out, sizes.out, sizes.lse}) {
      const auto part = floats(count);
      if (!part) return propagate(part);
      parts[next++] = *part;
    }
    show("drawing queries", 0);
    fill_normal(parts[0], 3);
    fill_normal(parts[1], 4);
    fill_normal(parts[2], 5, 1 / std::sqrt(static_cast<float>(kLatentDim)));
    tools_.isa = options_.isa;
    tools_.threads = pool_.get();
    tools_.queries = parts[0];
    tools_.expanded_queries = parts[1];
    tools_.out = parts[3];
    tools_.gemm_out = parts[4];
    tools_.lse = parts[5];
    gemm_ = std::make_unique<GemmAttention>(pool_.get());
    tools_.gemm = gemm_.get();
    if (weights == 0) return {};
    const std::uint64_t keys = weights / (kContentDim + kExpandedValueDim) * kContentDim;
    tools_.expansion = {parts[2].first(keys), parts[2].subspan(keys), kContentDim,
                        kExpandedValueDim};
    return gemm_->set_expansion(tools_.expansion);
  }

  // The same rows as one run of pages: what scattering them costs.
  void compare_with_contiguous(std::vector<Figure>* figures) const {
    Figure* scattered = nullptr;
    const Figure* contiguous = nullptr;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i]->what().key == "latent128") scattered = &(*figures)[i];
      if (runs_[i]->what().key == "contiguous") contiguous = &(*figures)[i];
    }
    if (scattered == nullptr || contiguous == nullptr) return;
    scattered->versus.emplace_back("contiguous", contiguous->seconds / scattered->seconds);
  }

  const AttentionBenchOptions& options_;
  std::unique_ptr<ThreadPool> pool_;
  MachineLimits limits_;
  std::uint64_t prefill_ = 0;
  std::array<std::unique_ptr<RowStore>, kStoredAsCount> stores_;
  std::vector<MemoryRegion> floats_;
  std::unique_ptr<GemmAttention> gemm_;
  CaseTools tools_;
  std::vector<std::unique_ptr<CaseRun>> runs_;
};

}  // namespace

std::vector<std::string_view> attention_bench_cases() {
  std::vector<std::string_view> keys;
  for (const AttentionCase& one : attention_cases({kPageRows, kPageRows})) keys.push_back(one.key);
  return keys;
}

std::uint64_t attention_bench_bytes(const AttentionBenchOptions& options) {
  const auto cases = chosen_cases(options, options.prefill.value_or(kPrefillTokens));
  std::uint64_t bytes = 256 * kMiB;  // scratch of the kernels and of oneDNN
  const auto pages = store_pages(cases, options.cache_bytes);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    bytes += pages[i] * kPageRows * row_bytes_of(static_cast<StoredAs>(i));
  }
  CaseFloats sizes;
  for (const AttentionCase& one : cases) sizes.include(one);
  bytes += (sizes.queries + sizes.expanded_queries + 2 * sizes.out + sizes.lse) * sizeof(float);
  if (has_prefill(cases)) bytes += 2 * expansion_floats() * sizeof(float);
  return bytes;
}

Result<std::vector<Figure>> bench_attention(const AttentionBenchOptions& options, Machine* machine,
                                            std::vector<std::string>* notes) {
  AttentionBench bench(options);
  if (const Status opened = bench.open(); !opened) return propagate(opened);
  if (const Status same = bench.check(); !same) return propagate(same);
  auto figures = bench.measure(machine);
  if (figures) bench.add_notes(notes);
  return figures;
}

}  // namespace emblema::bench
