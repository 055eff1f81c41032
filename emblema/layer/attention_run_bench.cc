#include "emblema/layer/attention_run_bench.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/layer/machine_limits_bench.h"

namespace emblema::bench {
namespace {

constexpr double kDifferenceMax = 1e-2;  // relative, in norm
constexpr std::size_t kPrefillCopies = 4;

double relative_difference(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(difference / norm);
}

// With the products that turn queries and results, which the kernel is not asked for here, as
// layer/prefill.h counts.
bool expanded_is_cheaper(const AttentionCase& one) {
  const double turns = 2.0 * static_cast<double>(one.queries) * one.heads * kLatentDim *
                       (kContentDim + kExpandedValueDim);
  return expanded_flop_of(one) < flop_of(one) + turns;
}

}  // namespace

void CaseFloats::include(const AttentionCase& one) {
  const AttentionShape shape = shape_of(one);
  const std::uint64_t rows = one.sequences * one.queries * one.heads;
  queries = std::max(queries, rows * shape.key_dim);
  out = std::max(out, rows * shape.value_dim);
  lse = std::max(lse, rows);
  if (one.is_prefill) {
    expanded_queries = std::max(expanded_queries, rows * (kContentDim + kRopeDim));
  }
}

CaseRun::CaseRun(const AttentionCase& one, const RowStore& store, CaseTools* tools)
    : one_(one), tools_(tools), parts_({Part::kOurs, Part::kRead, Part::kGemm}) {
  if (one.is_prefill) {
    parts_.push_back(Part::kOtherForm);
    chooses_expanded_ = expanded_is_cheaper(one);
  }
  if (!one.is_prefill && tools->threads != nullptr) parts_.push_back(Part::kOneThread);
  const auto pages = one.is_contiguous ? store.ascending() : store.scattered();
  const std::uint64_t per_copy = pages_of(one);
  EMBLEMA_CHECK(per_copy <= pages.size(), "a store that holds the case");
  std::size_t count = pages.size() / per_copy;
  if (one.is_warm) count = 1;
  if (one.is_prefill) count = std::min(count, kPrefillCopies);
  for (std::size_t i = 0; i < count; ++i) {
    copies_.push_back(std::make_unique<CaseCopy>(one, store, pages.subspan(i * per_copy, per_copy),
                                                 tools->queries.data()));
  }
}

const CaseCopy& CaseRun::take() {
  return *copies_[next_++ % copies_.size()];
}

bool CaseRun::is_expanded(Part part) const {
  return part == Part::kOtherForm ? !chooses_expanded_ : chooses_expanded_;
}

double CaseRun::flop(bool expanded) const {
  return expanded ? expanded_flop_of(one_) : flop_of(one_);
}

std::uint64_t CaseRun::out_size(bool expanded) const {
  const std::uint64_t rows = one_.sequences * one_.queries * one_.heads;
  return rows * (expanded ? kExpandedValueDim : shape_of(one_).value_dim);
}

AttentionInputs CaseRun::inputs_of(const CaseCopy& copy, bool expanded) const {
  return expanded ? copy.inputs_with(tools_->expanded_queries.data()) : copy.inputs();
}

Status CaseRun::run_ours(const CaseCopy& copy, bool expanded, ThreadPool* threads) {
  const AttentionInputs inputs = inputs_of(copy, expanded);
  const auto out = tools_->out.first(out_size(expanded));
  const auto lse = tools_->lse.first(one_.sequences * one_.queries * one_.heads);
  AttentionOptions options;
  options.workspace = &tools_->workspace;
  options.threads = threads;
  options.isa = tools_->isa;
  if (!one_.is_prefill) return decode_attention(inputs, out, lse, options);
  return prefill_attention(inputs, out, lse, expanded ? &tools_->expansion : nullptr, options);
}

Status CaseRun::run_gemm(const CaseCopy& copy, bool expanded) {
  return tools_->gemm->run(inputs_of(copy, expanded), expanded,
                           tools_->gemm_out.first(out_size(expanded)));
}

void CaseRun::read(const CaseCopy& copy) const {
  const std::uint64_t parts = tools_->threads == nullptr ? 1 : tools_->threads->threads();
  std::vector<std::uint64_t> sums(parts);
  run_parts(tools_->threads, parts,
            [&](std::uint32_t, std::uint64_t part) { sums[part] = copy.read_pages(part, parts); });
  for (const std::uint64_t sum : sums) keep(sum);
}

Status CaseRun::run(Part part, const CaseCopy& copy) {
  switch (part) {
    case Part::kRead:
      read(copy);
      return {};
    case Part::kGemm:
      return run_gemm(copy, is_expanded(part));
    case Part::kOneThread:
      return run_ours(copy, is_expanded(part), nullptr);
    case Part::kOurs:
    case Part::kOtherForm:
      return run_ours(copy, is_expanded(part), tools_->threads);
  }
  return {};
}

Result<double> CaseRun::timed(Part part) {
  const CaseCopy& copy = take();
  if (one_.is_warm) {  // what ran before has taken the caches
    if (const Status warmed = run(part, copy); !warmed) return propagate(warmed);
  }
  const double start = attention_seconds(tools_->threads);
  const Status done = run(part, copy);
  const double seconds = attention_seconds(tools_->threads) - start;
  if (!done) return propagate(done);
  return seconds;
}

Subject CaseRun::subject(Part part) {
  const char* how = part == Part::kRead ? ", reading" : part == Part::kGemm ? ", oneDNN" : "";
  return {fmt::format("{}{}", one_.name, how), [this, part] { return timed(part); }};
}

Status CaseRun::compare(bool expanded) {
  const CaseCopy& copy = take();
  if (Status done = run_ours(copy, expanded, tools_->threads); !done) return done;
  if (Status done = run_gemm(copy, expanded); !done) return done;
  const std::uint64_t size = out_size(expanded);
  const double difference =
      relative_difference(tools_->out.first(size), tools_->gemm_out.first(size));
  if (difference <= kDifferenceMax) return {};
  return fail(ErrorCode::Corrupt,
              fmt::format("{}: our result and the matrix products' differ by {:.2g} in norm; "
                          "allowed: {}, so that nothing was measured",
                          one_.name, difference, kDifferenceMax));
}

Status CaseRun::check() {
  if (Status same = compare(chooses_expanded_); !same) return same;
  return one_.is_prefill ? compare(!chooses_expanded_) : Status{};
}

Figure CaseRun::figure(const std::map<Part, double>& seconds, double peak) const {
  const double ours = seconds.at(Part::kOurs);
  const double work = flop(chooses_expanded_);
  const double bytes = static_cast<double>(distinct_rows_of(one_) * row_bytes_of(one_.stored));
  const double read_rate = bytes / seconds.at(Part::kRead);
  const double fed = work / bytes * read_rate;
  Figure figure;
  figure.name = fmt::format("attention: {}", one_.name);
  figure.isa = to_string(tools_->isa);
  figure.threads = tools_->threads == nullptr ? 1 : tools_->threads->threads();
  figure.seconds = ours;
  figure.flop_per_second = work / ours;
  figure.bytes_per_second = bytes / ours;
  figure.read_bytes_per_second = read_rate;
  figure.fraction_of_bound = work / ours / std::min(peak, fed);
  figure.bound = fed < peak ? "read" : tools_->isa == Isa::kAmx ? "amx" : "fma";
  figure.versus.emplace_back("gemm", seconds.at(Part::kGemm) / ours);
  figure.context_tokens = one_.context;
  figure.query_tokens = one_.sequences * one_.queries;
  figure.cold_bytes = one_.is_warm ? 0 : bytes * static_cast<double>(copies_.size());
  if (seconds.contains(Part::kOneThread)) {
    figure.versus.emplace_back("one_thread", seconds.at(Part::kOneThread) / ours);
  }
  if (one_.is_prefill) {
    const double other = seconds.at(Part::kOtherForm);
    figure.form = chooses_expanded_ ? "expanded" : "absorbed";
    figure.tokens_per_second = static_cast<double>(one_.queries) / ours;
    figure.other_form_tokens_per_second = static_cast<double>(one_.queries) / other;
    figure.versus.emplace_back(chooses_expanded_ ? "absorbed" : "expanded", other / ours);
  }
  return figure;
}

}  // namespace emblema::bench
