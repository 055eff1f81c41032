// A segment: a span of tokens encoded alone from position 0, declared by its user to depend on
// nothing before it. It is encoded once and attached anywhere: its bytes stay as they are, and the
// query is turned instead (layout/rope_table.h), so relative positions are exact.
//
// What it is not: the same as having read the span behind another prefix. From layer 1 on those
// latents differ; a segment is exact for what was declared.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emblema/block/block_manager.h"

namespace emblema {

struct EngineCore;

// Holds the segment's blocks while it lives. Move-only; attach() takes holds of its own. The
// entries that find it stay as long, too, unless deferred sharing led them to equal blocks: then
// want of memory may take those, and the next Engine::segment() builds it again.
class Segment {
 public:
  std::uint64_t tokens() const { return content_->tokens.size(); }
  const SegmentContent& content() const { return *content_; }
  std::vector<BlockId> held_blocks(std::uint32_t group) const;  // for readers and tests

 private:
  friend class Engine;
  friend class Sequence;
  friend class SegmentBuilder;
  struct Run {
    std::uint64_t first_block = 0;  // blocks before it are behind the window
    std::vector<SealedBlock> blocks;
  };
  std::shared_ptr<EngineCore> core_;  // first: it goes last
  std::shared_ptr<const SegmentContent> content_;
  std::vector<Run> runs_;  // one per group
};

}  // namespace emblema
