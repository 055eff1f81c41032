// weigh_rows: scores of 32 rows for 32 queries at a time, and the softmax of the 32 rows before
// woven between the products, so that the tile unit never waits for it.
//
//   scores   two pieces, 4 KiB each: the one being multiplied and the one being weighed
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/amx/packing.h"
#include "emblema/kernels/amx/prefetch.h"
#include "emblema/kernels/amx/rows.h"
#include "emblema/kernels/amx/softmax.h"
#include "emblema/kernels/amx/tiles.h"

namespace emblema::amx_kernels {

inline std::size_t query_bytes(const TileWidths& w, std::uint32_t query_count) {
  return parts_of(query_count, kTileRows) * (parts_of(w.key_dim, kStep) * kTileBytes);
}

inline std::size_t weight_bytes(std::uint32_t query_count) {
  return parts_of(query_count, kTileRows) * (kPieces * kTileBytes);
}

// [16 queries][step][16 pairs of numbers][16 queries]
inline void pack_queries(const TileWidths& w, const float* const* queries,
                         std::uint32_t query_count, std::byte* to) {
  const std::size_t panel_bytes = parts_of(w.key_dim, kStep) * kTileBytes;
  for (std::uint32_t q = 0; q < query_count; q += kTileRows, to += panel_bytes) {
    pack_columns(queries + q, std::min(kTileRows, query_count - q), w.key_dim, to);
  }
}

class Weigher {
 public:
  explicit Weigher(const WeighTask& task)
      : logits_(task, rows_of(task.rows)),
        task_(task),
        rows_(rows_of(task.rows)),
        steps_(parts_of(task.widths.key_dim, kStep)),
        tiles_(parts_of(task.query_count, kTileRows)),
        pieces_(parts_of(task.row_count, kStep)),
        prefetch_(task.prefetch, std::uint64_t{parts_of(tiles_, 2)} * pieces_ * steps_) {}

  void run();
  // Between two products.
  void step() {
    prefetch_.step();
    for (units_due_ += units_; units_due_ >= steps_; units_due_ -= steps_) weigh_unit();
  }

 private:
  // 32 rows for up to 32 queries, whose scores are there.
  struct Piece {
    std::uint32_t index = 0;
    std::uint32_t tile = 0;
    std::uint32_t tiles = 0;  // of queries
    const float* scores = nullptr;
    const float* scores_of(std::uint32_t t) const {
      return scores + std::size_t{t} * 2 * kTileFloats;
    }
  };
  static constexpr std::uint32_t kUnits = 4;  // of four pairs of rows, for each tile of queries

  void weigh_unit();
  void begin_piece(const Piece& piece);
  void end_piece();
  void multiply(const Piece& piece, float* scores);

  QueryLanes lanes_[kChunkQueries / kTileRows];
  Logits logits_;
  const WeighTask& task_;
  const Rows& rows_;
  Piece piece_;  // being weighed
  std::uint32_t steps_;
  std::uint32_t tiles_;
  std::uint32_t pieces_;
  std::uint32_t unit_ = 0;
  std::uint32_t units_ = 0;
  RowStreams prefetch_;
  std::uint32_t units_due_ = 0;  // in parts of a step: units are spread evenly over the steps
};

inline void Weigher::begin_piece(const Piece& piece) {
  piece_ = piece;
  unit_ = 0;
  units_ = piece.tiles * kUnits;
  units_due_ = 0;
  for (std::uint32_t t = 0; t < piece.tiles; ++t) lanes_[piece.tile + t].begin_piece();
}

inline void Weigher::weigh_unit() {
  if (unit_ == units_) return;
  const std::uint32_t t = unit_ / kUnits;
  lanes_[piece_.tile + t].weigh_pairs(logits_, piece_.scores_of(t), piece_.index,
                                      unit_ % kUnits * 4);
  ++unit_;
}

inline void Weigher::end_piece() {
  while (unit_ < units_) weigh_unit();
  for (std::uint32_t t = 0; t < piece_.tiles; ++t) {
    lanes_[piece_.tile + t].end_piece(logits_, piece_.scores_of(t), piece_.index);
  }
  units_ = unit_ = 0;
  piece_.tiles = 0;
}

inline void Weigher::multiply(const Piece& piece, float* scores) {
  const std::size_t panel_bytes = steps_ * kTileBytes;
  RowOperands o;
  for (std::uint32_t i = 0; i < 2 && (piece.index * 2 + i) * kTileRows < task_.row_count; ++i) {
    const RowGroup& group = rows_.groups[piece.index * 2 + i];
    o.rows[i] = group.keys;
    o.strides[i] = group.stride;
  }
  for (std::uint32_t t = 0; t < piece.tiles; ++t) {
    o.columns[t] = task_.queries + (piece.tile + t) * panel_bytes;
  }
  multiply_rows(o, steps_, *this, scores);
}

inline void Weigher::run() {
  alignas(64) float scores[2][4 * kTileFloats];
  for (std::uint32_t tile = 0; tile < tiles_; ++tile) {
    lanes_[tile].begin(task_, tile * kTileRows);
  }
  const TileSession session;
  std::uint32_t turn = 0;
  for (std::uint32_t tile = 0; tile < tiles_; tile += 2) {
    const std::uint32_t count = std::min(2U, tiles_ - tile);
    const QueryLanes& last = lanes_[tile + count - 1];
    const std::uint32_t lowest = std::min(lanes_[tile].lowest_row(), last.lowest_row());
    const std::uint32_t highest = std::max(lanes_[tile].highest_row(), last.highest_row());
    for (std::uint32_t i = lowest / kStep; i * kStep < highest; ++i) {
      const Piece piece{i, tile, count, scores[turn]};
      multiply(piece, scores[turn]);
      end_piece();
      begin_piece(piece);
      turn ^= 1;
    }
  }
  end_piece();
  for (std::uint32_t tile = 0; tile < tiles_; ++tile) lanes_[tile].end(task_, tile * kTileRows);
}

inline void weigh_rows(const WeighTask& task) {
  Weigher(task).run();
}

}  // namespace emblema::amx_kernels
