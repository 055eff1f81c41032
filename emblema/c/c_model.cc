// Models and their capacity.
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emblema/c/c_call.h"
#include "emblema/c/c_handles.h"
#include "emblema/model/model_config.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema::c_interface {
namespace {

static_assert(EMBLEMA_ROLE_KV == static_cast<int>(StreamRole::kKv));
static_assert(EMBLEMA_ROLE_LATENT == static_cast<int>(StreamRole::kLatent));
static_assert(EMBLEMA_ROLE_INDEXER == static_cast<int>(StreamRole::kIndexer));
static_assert(EMBLEMA_FP32 == static_cast<int>(Encoding::kFp32));
static_assert(EMBLEMA_FP16 == static_cast<int>(Encoding::kFp16));
static_assert(EMBLEMA_BF16 == static_cast<int>(Encoding::kBf16));

Result<ModelConfig> config_of(const emblema_model_options& options) {
  if ((options.source == nullptr) == (options.json == nullptr)) {
    return fail(ErrorCode::Invalid,
                fmt::format("source and json are {}; allowed: exactly one of them",
                            options.json == nullptr ? "both null" : "both given"));
  }
  if (options.source != nullptr) return load_model_config(options.source);
  auto text = text_of("json", options.json, options.json_bytes);
  if (!text) return propagate(text);
  return parse_model_config(*text, "json");
}

Result<GeometryOptions> geometry_options_of(const emblema_model_options& options) {
  GeometryOptions geometry;
  geometry.layers = options.layers;
  geometry.block_tokens = options.block_tokens;
  if (options.kv_dtype != nullptr) {
    auto dtype = parse_kv_dtype(options.kv_dtype);
    if (!dtype) return propagate(dtype);
    geometry.kv_dtype = *dtype;
  }
  if (options.indexer_dtype != nullptr) {
    auto dtype = parse_indexer_dtype(options.indexer_dtype);
    if (!dtype) return propagate(dtype);
    geometry.indexer_dtype = *dtype;
  }
  return geometry;
}

Status open_model(const emblema_model_options* given, emblema_model** out) {
  const auto options = read_struct("emblema_model_options", given);
  if (!options) return propagate(options);
  const auto geometry_options = geometry_options_of(*options);
  if (!geometry_options) return propagate(geometry_options);
  const auto config = config_of(*options);
  if (!config) return propagate(config);
  auto geometry = ModelGeometry::from(*config, *geometry_options);
  if (!geometry) return propagate(geometry);
  *out = std::make_unique<emblema_model>(emblema_model{std::move(*geometry)}).release();
  return {};
}

Status describe_model(const ModelGeometry& geometry, emblema_model_info* out) {
  const auto growing = geometry.growing_bytes_per_token();
  if (!growing) return propagate(growing);
  const auto fixed = geometry.fixed_bytes_per_sequence();
  if (!fixed) return propagate(fixed);
  const auto state = geometry.state_bytes_per_sequence();
  if (!state) return propagate(state);
  emblema_model_info info{};
  info.layers = static_cast<std::uint32_t>(geometry.layers().size());
  info.growing_bytes_per_token = growing->numerator();
  info.growing_bytes_per_token_denominator = growing->denominator();
  info.fixed_bytes_per_sequence = *fixed;
  info.state_bytes_per_sequence = *state;
  info.max_positions = geometry.model().max_positions;
  std::memcpy(info.fingerprint, geometry.fingerprint().bytes.data(), sizeof(info.fingerprint));
  return write_struct("emblema_model_info", info, out);
}

Status describe_layer(const ModelGeometry& geometry, std::uint32_t index, emblema_layer_info* out) {
  if (index >= geometry.layers().size()) {
    return fail(ErrorCode::Invalid,
                fmt::format("layer is {}; allowed: 0 to {}", index, geometry.layers().size() - 1));
  }
  const LayerGeometry& layer = geometry.layers()[index];
  emblema_layer_info info{};
  info.streams = static_cast<std::uint32_t>(layer.streams.size());
  if (!layer.streams.empty()) {
    const Stream& stream = layer.streams.front();
    info.role = static_cast<std::uint32_t>(stream.role);
    info.encoding = static_cast<std::uint32_t>(stream.regions.front().encoding);
    info.row_bytes = stream.entry_bytes;
  }
  info.query_heads = layer.query_heads;
  info.kv_heads = layer.kv_heads;
  info.key_dim = layer.key_dim;
  info.value_dim = layer.value_dim;
  info.window_tokens = layer.window_tokens;
  info.scale = layer.scale;
  info.softcap = layer.softcap;
  return write_struct("emblema_layer_info", info, out);
}

Result<Deployment> deployment_of(const GeometryOptions& options,
                                 const emblema_plan_request& request) {
  if (request.at_tokens == nullptr && request.at_count > 0) {
    return fail(ErrorCode::Invalid, fmt::format("at_tokens is null with at_count {}; allowed: the "
                                                "address of so many",
                                                request.at_count));
  }
  Deployment asked;
  asked.kv_dtype = options.kv_dtype;
  asked.indexer_dtype = options.indexer_dtype;
  asked.block_tokens = options.block_tokens;
  asked.layers = options.layers;
  asked.at_tokens.assign(request.at_tokens, request.at_tokens + request.at_count);
  if (request.pool_bytes > 0) asked.pool_bytes = request.pool_bytes;
  asked.context_tokens = request.context_tokens;
  if (request.step_tokens > 0) asked.step_tokens = request.step_tokens;
  return asked;
}

emblema_plan_info info_of(const CapacityPlan& plan) {
  emblema_plan_info info{};
  info.groups = static_cast<std::uint32_t>(plan.ranks[0].groups.size());
  info.block_tokens = plan.block_tokens;
  const auto& pool = plan.ranks.front().pool;
  if (!pool) return info;
  info.blocks = pool->groups.empty() ? 0 : pool->groups.front().blocks;
  info.tokens = pool->tokens;
  info.sequences = pool->sequences;
  info.sequence_tokens = pool->sequence_tokens;
  info.used_bytes = pool->used_bytes;
  return info;
}

Status plan_model(const ModelGeometry& geometry, const emblema_plan_request* given,
                  emblema_plan_info* out, std::uint64_t* payload_bytes,
                  std::uint64_t* allocated_bytes) {
  const auto request = read_struct("emblema_plan_request", given);
  if (!request) return propagate(request);
  const auto asked = deployment_of(geometry.options(), *request);
  if (!asked) return propagate(asked);
  const auto plan = plan_capacity(geometry.model(), *asked);
  if (!plan) return propagate(plan);
  if (Status ok = write_struct("emblema_plan_info", info_of(*plan), out); !ok) return ok;
  const std::vector<LengthBytes>& at = plan->ranks.front().at;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (payload_bytes != nullptr) payload_bytes[i] = at[i].payload_bytes;
    if (allocated_bytes != nullptr) allocated_bytes[i] = at[i].allocated_bytes;
  }
  return {};
}

}  // namespace
}  // namespace emblema::c_interface

using namespace emblema;
using namespace emblema::c_interface;

emblema_status emblema_model_open(const emblema_model_options* options, emblema_model** out) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"out", out}}); !ok) return ok;
    *out = nullptr;
    return open_model(options, out);
  });
}

void emblema_model_close(emblema_model* model) {
  delete model;
}

emblema_status emblema_model_describe(const emblema_model* model, emblema_model_info* info) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"model", model}}); !ok) return ok;
    return describe_model(model->geometry, info);
  });
}

emblema_status emblema_model_layer(const emblema_model* model, uint32_t layer,
                                   emblema_layer_info* info) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"model", model}}); !ok) return ok;
    return describe_layer(model->geometry, layer, info);
  });
}

emblema_status emblema_plan(const emblema_model* model, const emblema_plan_request* request,
                            emblema_plan_info* info, uint64_t* payload_bytes,
                            uint64_t* allocated_bytes) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"model", model}}); !ok) return ok;
    return plan_model(model->geometry, request, info, payload_bytes, allocated_bytes);
  });
}
