#include "emblema/kernels/attention_workspace.h"

#include <utility>

namespace emblema {

Result<std::byte*> AttentionWorkspace::reserve(std::uint64_t bytes) {
  if (bytes > memory_.size_bytes()) {
    memory_ = {};  // first, or both would be held at once
    Result<MemoryRegion> grown = MemoryRegion::map(bytes);
    if (!grown) return propagate(grown);
    memory_ = *std::move(grown);
  }
  return memory_.data();
}

}  // namespace emblema
