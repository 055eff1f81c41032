// What an engine and its sequences share. Internal to this room; immutable after open, but for the
// block manager and the quotas, which guard themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emblema/block/block_manager.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/attention_inputs.h"
#include "emblema/layout/block_layout.h"
#include "emblema/layout/pool_plan.h"
#include "emblema/pool/state_arena.h"
#include "emblema/session/engine_options.h"
#include "emblema/session/quota.h"
#include "emblema/session/sequence.h"

namespace emblema {

struct EngineCore {
  explicit EngineCore(const ModelGeometry& model_geometry) : geometry(model_geometry) {}

  ModelGeometry geometry;
  EngineOptions options;
  ModelLayout layout;
  PoolPlan plan;

  // How attention reads a layer: its shape and the page of its rows.
  struct LayerView {
    std::uint32_t group = 0;
    const StreamPage* page = nullptr;  // in layout.groups[group]; null: nothing here reads it
    PagedRows rows;                    // of that page, but for where the region lies
    std::string unreadable;            // then: what it is instead
    AttentionShape shape;
    RopeTable rope;
  };
  std::vector<LayerView> layers;
  bool relocatable = true;         // every rotary table has fixed frequencies
  std::uint64_t chunk_tokens = 0;  // segments attach at multiples of it; 0: anywhere

  std::unique_ptr<StateArena> arena;  // none where nothing lives in it
  SnapshotSchedule schedule;          // but for the prompt
  std::atomic<std::uint64_t> snapshots_taken{0};
  std::atomic<std::uint64_t> snapshots_missed{0};   // a step ran past the boundary
  std::atomic<std::uint64_t> snapshots_refused{0};  // no memory for them

  std::unique_ptr<QuotaBook> quotas;     // guards itself
  std::unique_ptr<BlockManager> blocks;  // last: it dies first

  struct PageRef {
    std::uint32_t group = 0;
    const StreamPage* page = nullptr;
  };
  std::uint64_t bytes_of(const std::vector<std::uint64_t>& counts) const;  // blocks per group
  // The page of a layer's stream in a block, or of the layer's that it shares with.
  std::optional<PageRef> find_page(std::uint32_t layer, StreamRole role) const;
};

}  // namespace emblema
