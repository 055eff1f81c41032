// The entry points: check, size, run.
#include "emblema/kernels/attention.h"

#include <functional>

#include "emblema/kernels/driver/call.h"
#include "emblema/kernels/driver/waves.h"

namespace emblema {
namespace {

using driver::Call;
using driver::Sizes;
using driver::Waves;

std::uint32_t workers_of(const AttentionOptions& options) {
  return options.threads == nullptr ? 1 : options.threads->threads();
}

// Results as large as the call says, for those who only ask for sizes.
std::uint64_t result_rows(const AttentionInputs& inputs) {
  return inputs.tokens * inputs.shape.query_heads;
}

Status check_call(const AttentionInputs& inputs, const LatentExpansion* expansion,
                  std::uint64_t out_size, std::uint64_t lse_size, const AttentionOptions& options) {
  const Status fits = expansion == nullptr
                          ? check_attention_inputs(inputs, out_size, lse_size)
                          : check_prefill_inputs(inputs, *expansion, out_size, lse_size);
  if (!fits) return fits;
  return check_isa(options.isa.value_or(best_isa()));
}

// Where results go: memory, each its own.
Status check_results(std::span<float> out, std::span<float> lse) {
  if (out.data() == nullptr && !out.empty()) {
    return fail(ErrorCode::Invalid, "out is null; allowed: memory for the results");
  }
  if (lse.data() == nullptr && !lse.empty()) {
    return fail(ErrorCode::Invalid, "lse is null; allowed: memory for the results");
  }
  const std::less<const float*> before;
  const bool are_apart =
      !before(lse.data(), out.data() + out.size()) || !before(out.data(), lse.data() + lse.size());
  if (out.empty() || lse.empty() || are_apart) return {};
  return fail(ErrorCode::Invalid, "lse lies in the memory of out; allowed: memory of its own");
}

}  // namespace

Result<std::uint64_t> attention_workspace_bytes(const AttentionInputs& inputs,
                                                const LatentExpansion* expansion,
                                                const AttentionOptions& options) {
  const std::uint64_t width = expansion == nullptr ? inputs.shape.value_dim : expansion->value_dim;
  const std::uint64_t rows = result_rows(inputs);
  if (auto s = check_call(inputs, expansion, rows * width, rows, options); !s) {
    return propagate(s);
  }
  Call call(inputs, expansion, options.isa.value_or(best_isa()), nullptr, nullptr);
  driver::share_among(workers_of(options), call);
  return Waves(call, Sizes(call), workers_of(options), nullptr).bytes();
}

Status prefill_attention(const AttentionInputs& inputs, std::span<float> out, std::span<float> lse,
                         const LatentExpansion* expansion, const AttentionOptions& options) {
  if (auto s = check_call(inputs, expansion, out.size(), lse.size(), options); !s) return s;
  if (auto s = check_results(out, lse); !s) return s;
  const std::uint32_t workers = workers_of(options);
  Call call(inputs, expansion, options.isa.value_or(best_isa()), out.data(), lse.data());
  driver::share_among(workers, call);
  const Sizes sizes(call);
  AttentionWorkspace own;
  AttentionWorkspace& workspace = options.workspace == nullptr ? own : *options.workspace;
  const Result<std::byte*> memory = workspace.reserve(Waves(call, sizes, workers, nullptr).bytes());
  if (!memory) return propagate(memory);
  Waves(call, sizes, workers, *memory).run(options.threads);
  return {};
}

Status decode_attention(const AttentionInputs& inputs, std::span<float> out, std::span<float> lse,
                        const AttentionOptions& options) {
  return prefill_attention(inputs, out, lse, nullptr, options);
}

}  // namespace emblema
