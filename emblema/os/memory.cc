#include "emblema/os/memory.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

namespace emblema {
namespace {

constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

}  // namespace

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept {
  *this = std::move(other);
}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(huge_pages_, other.huge_pages_);
  return *this;
}

MemoryRegion::~MemoryRegion() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

Result<MemoryRegion> MemoryRegion::map(std::uint64_t bytes) {
  MemoryRegion region;
  if (bytes == 0) return region;
  // NORESERVE: a pool may be larger than what is touched; the caller checks available memory.
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return fail(ErrorCode::Io,
                fmt::format("cannot map {} bytes of memory: {}", bytes, std::strerror(errno)));
  }
  region.data_ = static_cast<std::byte*>(address);
  region.size_bytes_ = bytes;
  region.huge_pages_ = bytes >= kHugePageBytes && ::madvise(address, bytes, MADV_HUGEPAGE) == 0;
  return region;
}

std::uint64_t available_memory_bytes() {
  std::ifstream info("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (info >> name >> kib) {
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(info, unit);
  }
  return 0;
}

}  // namespace emblema
