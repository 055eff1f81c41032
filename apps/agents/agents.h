// The main job: N agents read one shared document on a real model's attention geometry, three ways,
// and every result is checked.
//
//   unshared  each agent is a tenant of its own: N copies of the document
//   prefix    one tenant: agents with the same preamble share it and the document behind it
//   segment   the document is an independent segment: one copy, whatever stands before it
//
// Each agent's prompt is preamble, document, question; two answers branch off by fork. Prompts run
// by matrix products, answers straight from the shared blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/agents/holdings.h"
#include "apps/agents/workload.h"
#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/kernels/isa.h"

namespace emblema::agents {

struct AgentsOptions {
  WorkloadOptions workload;
  std::uint32_t threads = 1;                  // for products and attention, 1 to 1024
  std::optional<Isa> isa{};                   // of attention; none: the widest there is
  std::optional<std::uint64_t> pool_bytes{};  // none: what the unshared way needs
};

// One thing that was verified.
struct Check {
  std::string name;
  bool passed = false;
  double measured = 0;
  double allowed = 0;
};

struct WayReport {
  std::string name;                  // "unshared", "prefix", "segment"
  std::uint64_t logical_bytes = 0;   // blocks as their holders count them, at the end
  std::uint64_t physical_bytes = 0;  // blocks that are there
  Holdings holdings;
  std::uint64_t prefix_hit_tokens = 0;
  std::uint64_t segment_hit_tokens = 0;
  std::uint64_t content_shared_blocks = 0;
  std::uint64_t collisions = 0;
  std::uint64_t copied_blocks = 0;    // copy on write
  std::uint64_t computed_tokens = 0;  // run through the stack
  std::uint64_t served_tokens = 0;    // prompts and answers
  double seconds = 0;
  double tokens_per_second = 0;  // served
  // Attention over this way's blocks against unshared recomputation under the same semantics.
  double max_relative_difference = 0;
  std::uint64_t compared_vectors = 0;
  // The kernel over this way's blocks against double precision over the same rows.
  double max_reference_difference = 0;
  bool huge_pages = false;  // the system took the advice to back the pool with 2 MiB pages
};

// Bytes of one token over all layers, as this model keeps it and as other attention would, with the
// same number type: MHA keeps 2 x heads x value head dim, GQA-8 keeps 2 x 8 x value head dim.
struct SizeRatios {
  Rational bytes;
  Rational mha_bytes;
  Rational gqa8_bytes;
};
SizeRatios size_ratios(const ModelGeometry& geometry);

struct AgentsReport {
  std::string model;
  std::string attention;
  std::string kv_dtype;
  Isa isa = Isa::kScalar;  // of attention
  std::uint32_t threads = 1;
  std::uint64_t layers = 0;
  std::uint64_t agents = 0;
  std::uint64_t document_tokens = 0;
  std::uint64_t total_tokens = 0;  // of all agents, as if nothing were shared
  std::uint64_t block_tokens = 0;
  SizeRatios per_token;
  double ratio_to_mha = 0;
  double ratio_to_gqa8 = 0;
  std::vector<std::string> notes;  // of the model: assumptions made, fields ignored
  std::vector<WayReport> ways;
  std::vector<Check> checks;
  bool ok = false;  // every check passed
};

// Called between steps of the work: which one, and what share of all of it is done.
using Progress = std::function<void(const std::string& step, double done)>;

// Invalid: an option out of range, or too little memory (names what is needed). OutOfBlocks: the
// pool given is too small. Unsupported: a model whose cache cannot be run (DeepSeek-V4). A check
// that fails is no error: `ok` is false.
Result<AgentsReport> run_agents(const ModelGeometry& geometry, const AgentsOptions& options,
                                const Progress& progress = {});

// The largest difference that rounding of cached rows to this type explains, for max_relative_
// difference: relative, Euclidean norm over the hidden width.
double allowed_difference(KvDtype dtype);

}  // namespace emblema::agents
