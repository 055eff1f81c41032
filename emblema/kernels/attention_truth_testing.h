// For tests: attention calls of every instruction set held against the double-precision reference,
// and the worst errors that a program's tests have seen, printed when it ends.
//
// Bounds, |error| / |reference| in norm, as attention.h states them. An lse is compared to
// max(1, |lse|): one near 0 has no relative error worth the name.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/attention_case_testing.h"
#include "emblema/kernels/reference/reference_attention.h"

namespace emblema::testing_support {

// amx rounds queries and probabilities to bf16 where its rows fit bf16.
inline bool computes_in_bf16(Isa isa, const Storage& storage) {
  return isa == Isa::kAmx &&
         (storage.format != RowFormat::kPlain || storage.encoding == Encoding::kBf16 ||
          storage.encoding == Encoding::kFp8E4m3);
}
inline double bound_of(Isa isa, const Storage& storage) {
  return computes_in_bf16(isa, storage) ? 4e-3 : 2e-6;
}

// sqrt(sum of (a - b)^2 / sum of max(1, b^2)); infinite where
// one of a pair is not finite and the other is something else.
template <class A>
double lse_difference(const std::vector<A>& a, const std::vector<double>& b) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    if (std::isfinite(b[i])) norm += std::max(1.0, b[i] * b[i]);
    if (x == b[i] || (std::isnan(x) && std::isnan(b[i]))) continue;
    if (!std::isfinite(x) || !std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    difference += (x - b[i]) * (x - b[i]);
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}

// Prints when the program's tests have ended; says at the start which instruction sets it lacks.
class WorstErrors : public ::testing::Environment {
 public:
  void SetUp() override {
    for (const std::string& reason : missing_isas()) std::printf("not run: %s\n", reason.c_str());
  }
  void TearDown() override {
    for (const auto& [key, worst] : worst_) {
      std::printf("worst of %-6s over %-5s  out %.2e  lse %.2e  bound %.0e\n",
                  std::string(to_string(key.first)).c_str(), key.second.c_str(), worst.out,
                  worst.lse, worst.bound);
    }
  }
  void record(Isa isa, const Storage& storage, double out, double lse) {
    Worst& worst = worst_[{isa, storage.name()}];
    worst.out = std::max(worst.out, out);
    worst.lse = std::max(worst.lse, lse);
    worst.bound = bound_of(isa, storage);
  }

 private:
  struct Worst {
    double out = 0.0;
    double lse = 0.0;
    double bound = 0.0;
  };
  std::map<std::pair<Isa, std::string>, Worst> worst_;
};

// GoogleTest owns it.
inline WorstErrors& worst_errors() {
  static auto* errors = new WorstErrors;
  return *errors;
}
inline const ::testing::Environment* const kWorstErrorsArePrinted =
    ::testing::AddGlobalTestEnvironment(&worst_errors());

struct Truth {
  std::vector<double> out;
  std::vector<double> lse;
};

inline Truth truth_of(const AttentionCase& call) {
  Truth truth{std::vector<double>(call.out.size()), std::vector<double>(call.lse.size())};
  const Status want = reference_attention(call.inputs, truth.out, truth.lse);
  EXPECT_TRUE(want) << want.error().describe();
  return truth;
}

// What the call left in out and lse, against the truth; `allowed` times the bound.
inline void expect_near_truth(const AttentionCase& call, Isa isa, const Truth& truth,
                              const std::string& name, double allowed = 1.0) {
  const double out = relative_difference(call.out, truth.out);
  const double lse = lse_difference(call.lse, truth.lse);
  const double bound = bound_of(isa, call.storage) * allowed;
  if (allowed == 1.0) worst_errors().record(isa, call.storage, out, lse);
  EXPECT_LE(out, bound) << name << ", out by " << to_string(isa);
  EXPECT_LE(lse, bound) << name << ", lse by " << to_string(isa);
}

// Every instruction set that this machine runs: against the reference, and against scalar.
inline void expect_reference(AttentionCase& call, const std::string& name, double allowed = 1.0) {
  const Truth truth = truth_of(call);
  std::vector<float> by_scalar;
  for (const Isa isa : runnable_isas()) {
    call.options.isa = isa;
    std::fill(call.out.begin(), call.out.end(), -7.0F);
    std::fill(call.lse.begin(), call.lse.end(), -7.0F);
    const Status got = call.decode();
    ASSERT_TRUE(got) << name << ": " << got.error().describe();
    expect_near_truth(call, isa, truth, name, allowed);
    if (isa == Isa::kScalar) by_scalar = call.out;
    EXPECT_LE(relative_difference(call.out, by_scalar), bound_of(isa, call.storage) * allowed)
        << name << ", scalar and " << to_string(isa);
  }
  call.options.isa.reset();
}

}  // namespace emblema::testing_support
