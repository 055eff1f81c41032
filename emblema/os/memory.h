// Memory straight from the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "emblema/contract/bytes.h"
#include "emblema/contract/result.h"

namespace emblema {

// An anonymous, zero-filled, page-aligned mapping, owned. Pages are taken from the machine when
// they are first written. Not thread-safe to move; the bytes are the caller's to synchronise.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  ~MemoryRegion();

  // Asks for 2 MiB pages by madvise; whether the kernel agreed is huge_pages(). `bytes` = 0 gives
  // an empty region. Io: the kernel refused the mapping (names the bytes and its reason).
  static Result<MemoryRegion> map(std::uint64_t bytes);

  std::byte* data() const { return data_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  bool huge_pages() const { return huge_pages_; }  // advised; the kernel may still use small ones

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  bool huge_pages_ = false;
};

// Memory that a new allocation could use now (MemAvailable), or 0 if the system does not say.
std::uint64_t available_memory_bytes();

}  // namespace emblema
