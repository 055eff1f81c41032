// The states of a block as types: what may be written cannot be shared, what is shared cannot be
// written, and misuse does not compile (test/compile_fail).
//
//   OpenBlock    one writer; move-only; the only type with writable bytes
//   SealedBlock  immutable; share() makes another hold; no writable bytes
//
//   OpenBlock --seal(OpenBlock&&, filled)--> SealedBlock --reopen(SealedBlock&&)--> OpenBlock
//
// Each object is one hold on its block and gives it back when it dies: an abandoned OpenBlock is
// free again, a SealedBlock's block lives on while other holds or entries have it.
// Both must die before their BlockManager. One object: one thread at a time; different objects,
// even of one block: any threads.
#pragma once

#include <cstdint>
#include <utility>

#include "emblema/contract/bytes.h"
#include "emblema/pool/handle.h"

namespace emblema {

class BlockManager;

namespace block_internal {

// One counted hold: what both types are made of. Not for use outside this room.
class Hold {
 public:
  Hold() = default;
  Hold(BlockManager* manager, std::uint32_t group, BlockId id)
      : manager_(manager), group_(group), id_(id) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  Hold(Hold&& other) noexcept { swap(other); }
  Hold& operator=(Hold&& other) noexcept {
    Hold moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Hold() { reset(); }

  void reset();  // gives the hold back now
  // Forgets the hold without giving it back: its count moves to another object.
  void disarm() { manager_ = nullptr; }

  BlockManager* manager() const { return manager_; }
  std::uint32_t group() const { return group_; }
  BlockId id() const { return id_; }

 private:
  void swap(Hold& other) {
    std::swap(manager_, other.manager_);
    std::swap(group_, other.group_);
    std::swap(id_, other.id_);
  }
  BlockManager* manager_ = nullptr;
  std::uint32_t group_ = 0;
  BlockId id_;
};

}  // namespace block_internal

class OpenBlock {
 public:
  OpenBlock() = default;  // holds nothing

  bool holds() const { return hold_.manager() != nullptr; }
  BlockId id() const { return hold_.id(); }
  std::uint32_t group() const { return hold_.group(); }

  // The whole block, writable; empty in metadata-only mode. REQUIRES: holds().
  ByteSpan bytes() const;

 private:
  friend class BlockManager;
  explicit OpenBlock(block_internal::Hold hold) : hold_(std::move(hold)) {}
  block_internal::Hold hold_;
};

class SealedBlock {
 public:
  SealedBlock() = default;  // holds nothing

  bool holds() const { return hold_.manager() != nullptr; }
  BlockId id() const { return hold_.id(); }
  std::uint32_t group() const { return hold_.group(); }

  // The whole block; bytes behind the filled rows are zero. Empty in metadata-only mode.
  // REQUIRES: holds().
  ConstByteSpan bytes() const;

  // Another hold on the same block. REQUIRES: holds().
  SealedBlock share() const;

  // Where the bytes are, for kernels and other processes. REQUIRES: holds().
  Handle handle() const;

 private:
  friend class BlockManager;
  explicit SealedBlock(block_internal::Hold hold) : hold_(std::move(hold)) {}
  block_internal::Hold hold_;
};

}  // namespace emblema
