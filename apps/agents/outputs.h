// What attention gave for every answer token, layer by layer: kept so that one way of running can
// be compared with another.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace emblema::agents {

class Outputs {
 public:
  Outputs(std::uint64_t answers, std::uint64_t tokens, std::uint64_t layers, std::uint64_t hidden)
      : tokens_(tokens), layers_(layers), hidden_(hidden) {
    values_.resize(answers * tokens * layers * hidden);
    present_.resize(answers * tokens * layers, false);
  }

  // Memory that one takes, for a check beforehand.
  static std::uint64_t size_bytes(std::uint64_t answers, std::uint64_t tokens, std::uint64_t layers,
                                  std::uint64_t hidden) {
    return answers * tokens * layers * hidden * sizeof(float);
  }

  void record(std::uint64_t answer, std::uint64_t token, std::uint64_t layer,
              std::span<const float> output);

  // |a - b| / |b| in the Euclidean norm, of the vector where it is largest among those that both
  // have recorded; `compared` counts them. A vector that is not finite counts as infinitely far.
  struct Difference {
    double relative = 0;
    std::uint64_t compared = 0;
    std::uint64_t answer = 0;
    std::uint64_t token = 0;
    std::uint64_t layer = 0;
  };
  static Difference largest(const Outputs& a, const Outputs& b);

 private:
  std::uint64_t tokens_;
  std::uint64_t layers_;
  std::uint64_t hidden_;
  std::vector<float> values_;  // [answer][token][layer][hidden]
  std::vector<bool> present_;  // [answer][token][layer]
};

// |a - b| / |b|; infinity where anything is not finite; 0 for two zero vectors.
double relative_difference(std::span<const float> a, std::span<const float> b);
double relative_difference(std::span<const float> a, std::span<const double> b);

}  // namespace emblema::agents
