#include "emblema/layout/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/geometry/rope.h"

namespace emblema {
namespace {

Status require(bool holds, std::string_view field, double value, std::string_view allowed) {
  if (holds) return {};
  return fail(ErrorCode::Invalid, fmt::format("rope {} is {}; allowed: {}", field, value, allowed));
}

bool is_positive(double value) {
  return std::isfinite(value) && value > 0.0;
}

Status check_yarn(const RopeFacts& facts) {
  if (auto s = require(facts.theta > 1.0, "theta", facts.theta, "above 1 with yarn"); !s) return s;
  if (auto s = require(is_positive(facts.beta_fast), "beta_fast", facts.beta_fast, "above 0"); !s) {
    return s;
  }
  return require(is_positive(facts.beta_slow), "beta_slow", facts.beta_slow, "above 0");
}

Status check_llama3(const RopeFacts& facts) {
  const double low = facts.low_freq_factor;
  if (auto s = require(is_positive(low), "low_freq_factor", low, "above 0"); !s) return s;
  const bool ordered = std::isfinite(facts.high_freq_factor) && facts.high_freq_factor >= low;
  return require(ordered, "high_freq_factor", facts.high_freq_factor,
                 fmt::format("low_freq_factor ({}) or above", low));
}

Status check_longrope_table(std::string_view name, const std::vector<double>& table,
                            std::uint32_t rotary_dim) {
  if (table.size() != rotary_dim / 2) {
    return fail(ErrorCode::Invalid, fmt::format("rope {} has {} values; allowed: {}, half of "
                                                "rotary_dim",
                                                name, table.size(), rotary_dim / 2));
  }
  for (const double value : table) {
    if (auto s = require(is_positive(value), name, value, "values above 0"); !s) return s;
  }
  return {};
}

Status check_longrope(const RopeFacts& facts) {
  if (auto s = check_longrope_table("short_factor", facts.short_factor, facts.rotary_dim); !s) {
    return s;
  }
  return check_longrope_table("long_factor", facts.long_factor, facts.rotary_dim);
}

bool needs_original_length(RopeScaling scaling) {
  return scaling == RopeScaling::kYarn || scaling == RopeScaling::kLlama3 ||
         scaling == RopeScaling::kLongRope;
}

Status check_facts(const RopeFacts& facts) {
  if (facts.rotary_dim == 0 || facts.rotary_dim % 2 != 0) {
    return require(false, "rotary_dim", facts.rotary_dim, "an even number above 0");
  }
  if (auto s = require(is_positive(facts.theta), "theta", facts.theta, "above 0"); !s) return s;
  if (facts.scaling == RopeScaling::kNone) return {};
  if (auto s = require(is_positive(facts.factor), "factor", facts.factor, "above 0"); !s) return s;
  if (needs_original_length(facts.scaling) && facts.original_max_positions == 0) {
    return require(false, "original_max_positions", 0, "above 0 with this scaling");
  }
  if (facts.scaling == RopeScaling::kYarn) return check_yarn(facts);
  if (facts.scaling == RopeScaling::kLlama3) return check_llama3(facts);
  if (facts.scaling == RopeScaling::kLongRope) return check_longrope(facts);
  if (facts.scaling == RopeScaling::kProportional) {
    const double share = facts.partial_rotary_factor;
    return require(share >= 0.0 && share <= 1.0, "partial_rotary_factor", share, "0 to 1");
  }
  return {};
}

// base^(-2i/d)
std::vector<double> plain_frequencies(double base, std::uint32_t rotary_dim) {
  std::vector<double> frequencies(rotary_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / rotary_dim);
  }
  return frequencies;
}

bool depends_on_length(RopeScaling scaling) {
  return scaling == RopeScaling::kDynamic || scaling == RopeScaling::kLongRope;
}

// NTK-aware base for a sequence of `max_positions` tokens; the plain one up to the original length.
double dynamic_base(const RopeFacts& facts, std::uint64_t max_positions) {
  const std::uint64_t original = facts.original_max_positions;
  // One pair turns at base^0 = 1 whatever the base: the exponent below has no value there.
  if (original == 0 || max_positions <= original || facts.rotary_dim == 2) return facts.theta;
  const double stretch = static_cast<double>(max_positions) / static_cast<double>(original);
  const double dim = facts.rotary_dim;
  return facts.theta * std::pow(facts.factor * stretch - (facts.factor - 1.0), dim / (dim - 2.0));
}

// By parts: pairs that turn more than beta_fast times over the original length keep their
// frequency, those below beta_slow turns are slowed by `factor`, a ramp lies between.
void scale_yarn(const RopeFacts& facts, std::vector<double>& frequencies) {
  const double dim = facts.rotary_dim;
  const double length = static_cast<double>(facts.original_max_positions);
  const auto pair_that_turns = [&](double turns) {
    return dim * std::log(length / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(facts.theta));
  };
  double low = pair_that_turns(facts.beta_fast);
  double high = pair_that_turns(facts.beta_slow);
  if (facts.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;  // as published: a step instead of a division by zero
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] * (1.0 - ramp) + frequencies[i] / facts.factor * ramp;
  }
}

// By wavelength in tokens: short waves stay, long ones are slowed by `factor`, between is smooth.
// With both factors equal nothing is between.
void scale_llama3(const RopeFacts& facts, std::vector<double>& frequencies) {
  const double length = static_cast<double>(facts.original_max_positions);
  for (double& frequency : frequencies) {
    const double waves = length * frequency / (2.0 * std::numbers::pi);
    const double width = facts.high_freq_factor - facts.low_freq_factor;
    const double above = waves - facts.low_freq_factor;
    const double smooth = width > 0 ? std::clamp(above / width, 0.0, 1.0) : above > 0 ? 1.0 : 0.0;
    frequency = frequency / facts.factor * (1.0 - smooth) + frequency * smooth;
  }
}

// The whole head's frequencies, of which only the first share turn at all.
void scale_proportional(const RopeFacts& facts, std::vector<double>& frequencies) {
  const double turning =
      std::floor(facts.partial_rotary_factor * static_cast<double>(facts.rotary_dim) / 2.0);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = static_cast<double>(i) < turning ? frequencies[i] / facts.factor : 0.0;
  }
}

void scale_longrope(const RopeFacts& facts, std::uint64_t max_positions,
                    std::vector<double>& frequencies) {
  const bool is_long = max_positions > facts.original_max_positions;
  const std::vector<double>& table = is_long ? facts.long_factor : facts.short_factor;
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= table[i];
}

std::vector<double> scaled_frequencies(const RopeFacts& facts, std::uint64_t max_positions) {
  const bool is_dynamic = facts.scaling == RopeScaling::kDynamic;
  const double base = is_dynamic ? dynamic_base(facts, max_positions) : facts.theta;
  std::vector<double> frequencies = plain_frequencies(base, facts.rotary_dim);
  switch (facts.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamic:
      break;
    case RopeScaling::kLinear:
      for (double& frequency : frequencies) frequency /= facts.factor;
      break;
    case RopeScaling::kYarn:
      scale_yarn(facts, frequencies);
      break;
    case RopeScaling::kLlama3:
      scale_llama3(facts, frequencies);
      break;
    case RopeScaling::kLongRope:
      scale_longrope(facts, max_positions, frequencies);
      break;
    case RopeScaling::kProportional:
      scale_proportional(facts, frequencies);
      break;
  }
  return frequencies;
}

template <class Number>
void turn_pairs(std::span<Number> row, std::span<const double> frequencies, bool interleaved,
                double by, double amplitude) {
  const std::size_t pairs = frequencies.size();
  EMBLEMA_CHECK(row.size() >= 2 * pairs, "a row at least rotary_dim wide");
  for (std::size_t i = 0; i < pairs; ++i) {
    Number& u = row[interleaved ? 2 * i : i];
    Number& v = row[interleaved ? 2 * i + 1 : i + pairs];
    const double cosine = amplitude * std::cos(by * frequencies[i]);
    const double sine = amplitude * std::sin(by * frequencies[i]);
    const double x = u;
    const double y = v;
    u = static_cast<Number>(x * cosine - y * sine);
    v = static_cast<Number>(x * sine + y * cosine);
  }
}

}  // namespace

Result<RopeTable> RopeTable::from(const RopeFacts& facts, std::uint64_t max_positions) {
  if (auto s = check_facts(facts); !s) return propagate(s);
  RopeTable table;
  table.frequencies_ = scaled_frequencies(facts, max_positions);
  table.amplitude_ = rope_amplitude(facts, max_positions);
  table.interleaved_ = facts.interleaved;
  table.fixed_frequencies_ = !depends_on_length(facts.scaling);
  const bool is_usable = is_positive(table.amplitude_);
  if (auto s = require(is_usable, "amplitude", table.amplitude_, "above 0"); !s) {
    return propagate(s);
  }
  for (const double frequency : table.frequencies_) {
    if (auto s = require(std::isfinite(frequency), "frequency", frequency, "finite"); !s) {
      return propagate(s);
    }
  }
  return table;
}

void RopeTable::rotate(std::span<float> row, std::int64_t position) const {
  turn_pairs(row, frequencies_, interleaved_, static_cast<double>(position), amplitude_);
}

void RopeTable::rotate(std::span<double> row, std::int64_t position) const {
  turn_pairs(row, frequencies_, interleaved_, static_cast<double>(position), amplitude_);
}

void RopeTable::turn(std::span<float> row, std::int64_t by) const {
  turn_pairs(row, frequencies_, interleaved_, static_cast<double>(by), 1.0);
}

void RopeTable::turn(std::span<double> row, std::int64_t by) const {
  turn_pairs(row, frequencies_, interleaved_, static_cast<double>(by), 1.0);
}

}  // namespace emblema
