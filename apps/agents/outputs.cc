#include "apps/agents/outputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emblema/contract/check.h"

namespace emblema::agents {
namespace {

template <class Truth>
double relative(std::span<const float> a, std::span<const Truth> b) {
  EMBLEMA_CHECK(a.size() == b.size(), "vectors of one length");
  double apart = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double truth = static_cast<double>(b[i]);
    const double difference = static_cast<double>(a[i]) - truth;
    apart += difference * difference;
    norm += truth * truth;
  }
  if (!std::isfinite(apart) || !std::isfinite(norm)) {
    return std::numeric_limits<double>::infinity();
  }
  if (apart == 0) return 0;
  return norm == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(apart / norm);
}

}  // namespace

double relative_difference(std::span<const float> a, std::span<const float> b) {
  return relative(a, b);
}

double relative_difference(std::span<const float> a, std::span<const double> b) {
  return relative(a, b);
}

void Outputs::record(std::uint64_t answer, std::uint64_t token, std::uint64_t layer,
                     std::span<const float> output) {
  const std::uint64_t slot = (answer * tokens_ + token) * layers_ + layer;
  EMBLEMA_CHECK(slot < present_.size() && output.size() == hidden_, "a place that was foreseen");
  std::ranges::copy(output, values_.begin() + static_cast<std::ptrdiff_t>(slot * hidden_));
  present_[slot] = true;
}

Outputs::Difference Outputs::largest(const Outputs& a, const Outputs& b) {
  EMBLEMA_CHECK(a.values_.size() == b.values_.size() && a.hidden_ == b.hidden_ &&
                    a.tokens_ == b.tokens_ && a.layers_ == b.layers_,
                "outputs of one workload");
  Difference largest;
  for (std::uint64_t slot = 0; slot < a.present_.size(); ++slot) {
    if (!a.present_[slot] || !b.present_[slot]) continue;
    ++largest.compared;
    const double here =
        relative_difference(std::span(a.values_).subspan(slot * a.hidden_, a.hidden_),
                            std::span(b.values_).subspan(slot * a.hidden_, a.hidden_));
    if (here <= largest.relative && largest.compared > 1) continue;
    largest.relative = here;
    largest.layer = slot % a.layers_;
    largest.token = slot / a.layers_ % a.tokens_;
    largest.answer = slot / a.layers_ / a.tokens_;
  }
  return largest;
}

}  // namespace emblema::agents
