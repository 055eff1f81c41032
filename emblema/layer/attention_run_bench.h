// One case of `emblema bench attention` and all that is timed of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bench/figure.h"
#include "bench/rounds.h"
#include "emblema/kernels/attention.h"
#include "emblema/layer/attention_case_bench.h"
#include "emblema/layer/attention_gemm_bench.h"

namespace emblema::bench {

// What the cases share: one of them runs at a time.
struct CaseTools {
  Isa isa = Isa::kScalar;
  ThreadPool* threads = nullptr;  // null: one
  AttentionWorkspace workspace;
  GemmAttention* gemm = nullptr;
  LatentExpansion expansion;
  std::span<const float> queries;           // as many as the largest case wants, N(0, 1)
  std::span<const float> expanded_queries;  // likewise
  std::span<float> out;
  std::span<float> gemm_out;
  std::span<float> lse;
};

// Numbers that a case reads and writes of the above.
struct CaseFloats {
  std::uint64_t queries = 0;
  std::uint64_t expanded_queries = 0;
  std::uint64_t out = 0;
  std::uint64_t lse = 0;

  void include(const AttentionCase& one);
};

class CaseRun {
 public:
  // What is timed of a case.
  enum class Part : std::uint8_t {
    kOurs,       // in the form that takes fewer operations
    kRead,       // the pages alone
    kGemm,       // oneDNN, in the same form
    kOneThread,  // ours, where there are more
    kOtherForm,  // ours, of prefill
  };

  // All outlive it. `store` has pages_of(one) at least.
  CaseRun(const AttentionCase& one, const RowStore& store, CaseTools* tools);

  const AttentionCase& what() const { return one_; }

  // Ours against the matrix products, each form once. Corrupt: they differ.
  [[nodiscard]] Status check();

  const std::vector<Part>& parts() const { return parts_; }
  Subject subject(Part part);

  // `seconds`: of parts(), each a median. `peak`: that the processor computes at most for the isa.
  Figure figure(const std::map<Part, double>& seconds, double peak) const;

 private:
  const CaseCopy& take();
  bool is_expanded(Part part) const;
  [[nodiscard]] Status run_ours(const CaseCopy& copy, bool expanded, ThreadPool* threads);
  [[nodiscard]] Status run_gemm(const CaseCopy& copy, bool expanded);
  [[nodiscard]] Status run(Part part, const CaseCopy& copy);
  void read(const CaseCopy& copy) const;
  Result<double> timed(Part part);
  [[nodiscard]] Status compare(bool expanded);
  AttentionInputs inputs_of(const CaseCopy& copy, bool expanded) const;
  std::uint64_t out_size(bool expanded) const;
  double flop(bool expanded) const;

  AttentionCase one_;
  CaseTools* tools_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<CaseCopy>> copies_;
  std::size_t next_ = 0;
  bool chooses_expanded_ = false;
};

}  // namespace emblema::bench
