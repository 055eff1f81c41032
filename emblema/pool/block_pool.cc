#include "emblema/pool/block_pool.h"

#include <fmt/format.h>

#include "emblema/contract/check.h"

namespace emblema {

std::string describe(const Handle& handle) {
  return fmt::format("region {} + {}, {} bytes", handle.region, handle.offset_bytes,
                     handle.length_bytes);
}

std::string describe(BlockId id) {
  return fmt::format("block {} generation {}", id.index, id.generation);
}

Result<BlockPool> BlockPool::open(const Options& options) {
  if (options.blocks >= UINT32_MAX) {
    return fail(ErrorCode::Invalid, fmt::format("blocks is {}; allowed: up to {} per group",
                                                options.blocks, UINT32_MAX - 1));
  }
  const auto bytes = mul_bytes(options.blocks, options.block_bytes, "bytes of the pool");
  if (!bytes) return propagate(bytes);
  BlockPool pool;
  pool.options_ = options;
  if (!options.metadata_only) {
    auto memory = MemoryRegion::map(*bytes);
    if (!memory) return propagate(memory);
    pool.memory_ = std::move(*memory);
  }
  pool.generations_.assign(options.blocks, 0);
  pool.taken_.assign(options.blocks, false);
  pool.free_ = FreeLists(static_cast<std::uint32_t>(options.blocks));
  return pool;
}

std::optional<BlockId> BlockPool::take(std::uint32_t domain) {
  const auto index = free_.take(domain);
  if (!index) return std::nullopt;
  taken_[*index] = true;
  return id_of(*index);
}

void BlockPool::release(BlockId id, std::uint32_t domain) {
  EMBLEMA_CHECK(is_current(id), "a block is given back once, by its holder");
  taken_[id.index] = false;
  ++generations_[id.index];
  free_.put(id.index, domain);
}

bool BlockPool::is_current(BlockId id) const {
  return id.index < capacity() && taken_[id.index] && generations_[id.index] == id.generation;
}

ByteSpan BlockPool::bytes(std::uint32_t index) const {
  EMBLEMA_CHECK(index < capacity(), "a block of this pool");
  if (options_.metadata_only) return {};
  return {memory_.data() + index * options_.block_bytes, options_.block_bytes};
}

Handle BlockPool::handle(BlockId id) const {
  EMBLEMA_CHECK(is_current(id), "a handle names a block that is taken");
  return {options_.region, id.index * options_.block_bytes, options_.block_bytes};
}

Result<ByteSpan> BlockPool::resolve(const Handle& handle) const {
  const auto end = checked_add(handle.offset_bytes, handle.length_bytes);
  if (handle.region != options_.region || !end || *end > memory_.size_bytes()) {
    return fail(ErrorCode::Invalid,
                fmt::format("handle ({}) is outside region {} of {} bytes", describe(handle),
                            options_.region, memory_.size_bytes()));
  }
  return ByteSpan(memory_.data() + handle.offset_bytes, handle.length_bytes);
}

}  // namespace emblema
