// Rotary position embeddings as a value: which channels turn together, and how fast.
//
// R(p) turns pair i of the rotary channels by p x frequency(i). Angles are computed in double.
// Attention only ever sees differences: (R(t) q) . (R(p) k) = q . R(p - t) k, so a row stored at p
// and read as if at p + delta needs only the query turned by -delta (Su et al. 2021, eq. 16).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/model/rope_facts.h"

namespace emblema {

class RopeTable {
 public:
  RopeTable() = default;  // turns nothing: layers without rotation

  // Frequencies of every scaling in RopeScaling (YaRN, Llama 3 and LongRope as in transformers'
  // modeling_rope_utils). `max_positions` picks LongRope's table, once for every row (above the
  // original length: long), and is the sequence length that dynamic NTK's base is computed for.
  // Invalid, naming the field: odd or zero rotary_dim, theta or factor not above 0, a length that
  // the scaling needs and lacks, factor tables of the wrong length.
  static Result<RopeTable> from(const RopeFacts& facts, std::uint64_t max_positions);

  std::uint32_t rotary_dim() const { return 2 * static_cast<std::uint32_t>(frequencies_.size()); }
  bool interleaved() const { return interleaved_; }
  double amplitude() const { return amplitude_; }
  std::span<const double> frequencies() const { return frequencies_; }

  // False where frequencies depend on the sequence's length: dynamic NTK's base grows with it, and
  // LongRope changes tables at the original length (the one in use is part of the geometry's
  // fingerprint). Reading a stored row at another position is then refused.
  bool fixed_frequencies() const { return fixed_frequencies_; }

  // Turns the first rotary_dim() elements of `row` by `position` and applies the amplitude once.
  // REQUIRES (both): row.size() >= rotary_dim(); |position| <= 2^53, what a double counts exactly.
  void rotate(std::span<float> row, std::int64_t position) const;
  void rotate(std::span<double> row, std::int64_t position) const;

  // The pure rotation R(by), amplitude 1: what relocation uses.
  void turn(std::span<float> row, std::int64_t by) const;
  void turn(std::span<double> row, std::int64_t by) const;

 private:
  std::vector<double> frequencies_;
  double amplitude_ = 1.0;
  bool interleaved_ = false;
  bool fixed_frequencies_ = true;
};

}  // namespace emblema
