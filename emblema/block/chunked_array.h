// An array that grows at its end without moving what is there: growth costs the same however large
// it is, and a reference stays valid. Internal to this room; not synchronised.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace emblema::block_internal {

template <class T>
class ChunkedArray {
 public:
  static constexpr std::size_t kChunk = 1024;  // elements allocated at once

  std::size_t size() const { return size_; }

  // REQUIRES: index < size().
  T& operator[](std::size_t index) { return chunks_[index / kChunk][index % kChunk]; }
  const T& operator[](std::size_t index) const { return chunks_[index / kChunk][index % kChunk]; }

  // At least `size` elements; new ones are T{}.
  void grow_to(std::size_t size) {
    while (chunks_.size() * kChunk < size) chunks_.push_back(std::make_unique<T[]>(kChunk));
    if (size > size_) size_ = size;
  }

 private:
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace emblema::block_internal
