// The scratch of attention calls: owned by the caller, reused from call to call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emblema/contract/result.h"
#include "emblema/os/memory.h"

namespace emblema {

// Grows to the largest call it has served and stays there. One call at a time.
class AttentionWorkspace {
 public:
  // At least `bytes`, 64-byte aligned; what it held before is lost. Io: the system gives no memory.
  Result<std::byte*> reserve(std::uint64_t bytes);

  std::uint64_t size_bytes() const { return memory_.size_bytes(); }

 private:
  MemoryRegion memory_;
};

}  // namespace emblema
