// Sequences, segments and attention.
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "emblema/c/c_call.h"
#include "emblema/c/c_handles.h"
#include "emblema/contract/bytes.h"
#include "emblema/kernels/attention.h"

namespace emblema::c_interface {
namespace {

// A sequence of the interface is one object, whoever reads it; the C++ one is held by value in it.
Sequence& sequence_of(const emblema_sequence* sequence) {
  return const_cast<emblema_sequence*>(sequence)->sequence();
}

Result<StreamRole> role_of(std::uint32_t role) {
  if (role >= EMBLEMA_ROLE_KV && role <= EMBLEMA_ROLE_INDEXER) {
    return static_cast<StreamRole>(role);
  }
  return fail(ErrorCode::Invalid,
              fmt::format("role is {}; allowed: 1 (kv), 2 (latent), 3 (indexer)", role));
}

Status describe(const emblema_sequence* sequence, emblema_sequence_info* out) {
  const Sequence& from = sequence_of(sequence);
  emblema_sequence_info info{};
  info.builds_segment = std::holds_alternative<SegmentBuilder>(sequence->what) ? 1 : 0;
  info.tokens = from.tokens();
  info.reserved_tokens = from.reserved_tokens();
  info.hit_tokens = from.hit_tokens();
  return write_struct("emblema_sequence_info", info, out);
}

struct ChunkList {
  emblema_chunk* chunks;
  std::uint64_t capacity;
  std::uint64_t* count;
};

Status list_chunks(const RowView& view, const ChunkList& out) {
  *out.count = view.size();
  if (view.size() > out.capacity) {
    return fail(ErrorCode::Invalid, fmt::format("capacity is {}; allowed: at least the {} chunks "
                                                "of these rows",
                                                out.capacity, view.size()));
  }
  if (view.size() > 0) {
    if (Status ok = require({{"chunks", out.chunks}}); !ok) return ok;
  }
  for (std::uint64_t i = 0; i < view.size(); ++i) {
    const RowChunk chunk = view[i];
    out.chunks[i] = {chunk.data, chunk.rows, chunk.row_bytes, chunk.first_token};
  }
  return {};
}

Status find_row(const Sequence& sequence, std::uint32_t layer, StreamRole role,
                std::uint64_t position, ConstByteSpan* row) {
  if (position >= sequence.tokens()) {
    return fail(ErrorCode::Invalid, fmt::format("row at position {}; allowed: below the {} tokens "
                                                "committed",
                                                position, sequence.tokens()));
  }
  // Says whether there are such rows at all, and whether this engine holds bytes.
  if (const auto any = sequence.rows(layer, role, sequence.tokens(), 0); !any) {
    return propagate(any);
  }
  *row = sequence.row_bytes(layer, role, position);
  if (!row->empty()) return {};
  return fail(ErrorCode::NotFound,
              fmt::format("row at position {} lies behind its window and was released", position));
}

Status check_floats(std::string_view field, const float* floats, std::uint64_t count) {
  if (floats != nullptr || count == 0) return {};
  return fail(
      ErrorCode::Invalid,
      fmt::format("{} is null with {} floats; allowed: the address of so many", field, count));
}

Status check_query(const AttentionInputs& inputs, const emblema_attention& asked) {
  const std::uint64_t width = std::uint64_t{inputs.shape.query_heads} * inputs.shape.key_dim;
  const auto wanted = checked_mul(asked.queries, width);
  if (wanted && asked.q_floats == *wanted) return {};
  return fail(
      ErrorCode::Invalid,
      fmt::format("q_floats is {}; allowed: queries x query_heads x key_dim ({} x {} x {})",
                  asked.q_floats, asked.queries, inputs.shape.query_heads, inputs.shape.key_dim));
}

Status attend(const emblema_sequence& handle, const emblema_attention* given) {
  const auto asked = read_struct("emblema_attention", given);
  if (!asked) return propagate(asked);
  if (Status ok = check_floats("q", asked->q, asked->q_floats); !ok) return ok;
  if (Status ok = check_floats("sinks", asked->sinks, asked->sinks_floats); !ok) return ok;
  if (Status ok = check_floats("out", asked->out, asked->out_floats); !ok) return ok;
  if (Status ok = check_floats("lse", asked->lse, asked->lse_floats); !ok) return ok;
  auto inputs = sequence_of(&handle).inputs(asked->layer, asked->q, asked->first, asked->queries);
  if (!inputs) return propagate(inputs);
  if (Status ok = check_query(*inputs, *asked); !ok) return ok;
  inputs->sinks = {asked->sinks, asked->sinks_floats};
  return decode_attention(*inputs, {asked->out, asked->out_floats}, {asked->lse, asked->lse_floats},
                          {.workspace = &handle.workspace});
}

Status seal_segment(emblema_sequence* sequence, emblema_segment** out) {
  SegmentBuilder* builder = sequence->builder();
  if (builder == nullptr) {
    return fail(ErrorCode::Invalid,
                "builder is a sequence; allowed: a builder of emblema_segment_begin");
  }
  auto segment = builder->seal();
  if (!segment) return propagate(segment);
  *out = std::make_unique<emblema_segment>(emblema_segment{std::move(*segment)}).release();
  return {};
}

}  // namespace
}  // namespace emblema::c_interface

using namespace emblema;
using namespace emblema::c_interface;

void emblema_sequence_release(emblema_sequence* sequence) {
  delete sequence;
}

void emblema_segment_release(emblema_segment* segment) {
  delete segment;
}

emblema_status emblema_sequence_describe(const emblema_sequence* sequence,
                                         emblema_sequence_info* info) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"sequence", sequence}}); !ok) return ok;
    return describe(sequence, info);
  });
}

emblema_status emblema_sequence_reserve(emblema_sequence* sequence, uint64_t tokens) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"sequence", sequence}}); !ok) return ok;
    return sequence->sequence().reserve(tokens);
  });
}

emblema_status emblema_sequence_cancel(emblema_sequence* sequence) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"sequence", sequence}}); !ok) return ok;
    sequence->sequence().cancel();
    return {};
  });
}

emblema_status emblema_sequence_rows(const emblema_sequence* sequence, uint32_t layer,
                                     uint32_t role, uint64_t first, uint64_t count,
                                     emblema_chunk* chunks, uint64_t capacity,
                                     uint64_t* chunk_count) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"chunk_count", chunk_count}}); !ok) return ok;
    *chunk_count = 0;
    if (Status ok = require({{"sequence", sequence}}); !ok) return ok;
    const auto known = role_of(role);
    if (!known) return propagate(known);
    const auto view = sequence_of(sequence).rows(layer, *known, first, count);
    if (!view) return propagate(view);
    return list_chunks(*view, {chunks, capacity, chunk_count});
  });
}

emblema_status emblema_sequence_row(const emblema_sequence* sequence, uint32_t layer, uint32_t role,
                                    uint64_t position, const void** data, uint64_t* bytes) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"data", data}, {"bytes", bytes}}); !ok) return ok;
    *data = nullptr;
    *bytes = 0;
    if (Status ok = require({{"sequence", sequence}}); !ok) return ok;
    const auto known = role_of(role);
    if (!known) return propagate(known);
    ConstByteSpan row;
    if (Status ok = find_row(sequence_of(sequence), layer, *known, position, &row); !ok) return ok;
    *data = row.data();
    *bytes = row.size();
    return {};
  });
}

emblema_status emblema_sequence_commit(emblema_sequence* sequence, const uint32_t* tokens,
                                       uint64_t count) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"sequence", sequence}}); !ok) return ok;
    const auto ids = tokens_of("tokens", tokens, count);
    if (!ids) return propagate(ids);
    return sequence->sequence().commit(*ids);
  });
}

emblema_status emblema_sequence_fork(emblema_sequence* sequence, emblema_sequence** out) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"out", out}}); !ok) return ok;
    *out = nullptr;
    if (Status ok = require({{"sequence", sequence}}); !ok) return ok;
    auto child = sequence->sequence().fork();
    if (!child) return propagate(child);
    *out = std::make_unique<emblema_sequence>(emblema_sequence{std::move(*child)}).release();
    return {};
  });
}

emblema_status emblema_segment_seal(emblema_sequence* builder, emblema_segment** out) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"out", out}}); !ok) return ok;
    *out = nullptr;
    if (Status ok = require({{"builder", builder}}); !ok) return ok;
    return seal_segment(builder, out);
  });
}

emblema_status emblema_segment_tokens(const emblema_segment* segment, uint64_t* tokens) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"segment", segment}, {"tokens", tokens}}); !ok) return ok;
    *tokens = segment->segment.tokens();
    return {};
  });
}

emblema_status emblema_sequence_attach(emblema_sequence* sequence, const emblema_segment* segment,
                                       const uint32_t* following, uint64_t count,
                                       uint64_t* hit_tokens) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"hit_tokens", hit_tokens}}); !ok) return ok;
    *hit_tokens = 0;
    if (Status ok = require({{"sequence", sequence}, {"segment", segment}}); !ok) return ok;
    const auto ids = tokens_of("following", following, count);
    if (!ids) return propagate(ids);
    const auto hit = sequence->sequence().attach(segment->segment, *ids);
    if (!hit) return propagate(hit);
    *hit_tokens = *hit;
    return {};
  });
}

emblema_status emblema_attend(const emblema_sequence* sequence,
                              const emblema_attention* attention) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"sequence", sequence}}); !ok) return ok;
    return attend(*sequence, attention);
  });
}
