#include "python/src/handles.h"

#include <algorithm>

#include <fmt/format.h>

namespace emblema::python {

std::unique_ptr<AttentionWorkspace> WorkspacePool::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<AttentionWorkspace>();
  std::unique_ptr<AttentionWorkspace> workspace = std::move(idle_.back());
  idle_.pop_back();
  return workspace;
}

void WorkspacePool::give_back(std::unique_ptr<AttentionWorkspace> workspace) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(workspace));
}

Result<const LayerGeometry*> OpenEngine::layer(std::uint64_t index) const {
  const auto layers = engine.geometry().layers();
  if (index >= layers.size()) {
    return fail(ErrorCode::Invalid,
                fmt::format("layer is {}; allowed: below {}", index, layers.size()));
  }
  const LayerGeometry& layer = layers[index];
  return layer.shares_with ? &layers[*layer.shares_with] : &layer;
}

LiveSequence::~LiveSequence() {
  const nb::gil_scoped_acquire acquired;  // a consumer of DLPack may let go on any thread
  lent_.clear();
}

Result<Sequence*> LiveSequence::locked_sequence() {
  if (!what_) {
    return fail(ErrorCode::Invalid,
                "the sequence was released; allowed: one that still holds its blocks");
  }
  if (auto* builder = std::get_if<SegmentBuilder>(&*what_)) return &builder->sequence();
  return &std::get<Sequence>(*what_);
}

void LiveSequence::release() {
  {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    if (!what_) return;
    what_.reset();
    end_rows();
  }
  seal_lent();
}

Segment LiveSequence::seal() {
  return change([this](Sequence&) -> Result<Segment> {
    auto* builder = std::get_if<SegmentBuilder>(&*what_);
    if (builder == nullptr) {
      return fail(ErrorCode::Invalid, "seal of a sequence; allowed: a segment's builder");
    }
    return builder->seal();
  });
}

std::uint64_t LiveSequence::write_position() {
  const Sequence& sequence = **locked_sequence();
  const TokenRange replay = sequence.replay();
  return replay.count > 0 ? replay.first + replayed_ : sequence.tokens();
}

void LiveSequence::note_commit(std::uint64_t tokens) {
  const bool replays = (*locked_sequence())->replay().count > 0;
  replayed_ = replays ? replayed_ + tokens : 0;
}

void LiveSequence::lend(const nb::object& array) {
  if (lent_.size() == lent_.capacity()) {  // before it grows: those that are gone
    std::erase_if(lent_, [](const nb::object& reference) { return reference().is_none(); });
  }
  lent_.push_back(nb::steal(PyWeakref_NewRef(array.ptr(), nullptr)));
}

void LiveSequence::seal_lent() {
  for (const nb::object& reference : std::exchange(lent_, {})) {
    if (const nb::object array = reference(); !array.is_none()) array.attr("setflags")(false);
  }
}

SequencesLock::SequencesLock(std::span<const std::shared_ptr<LiveSequence>> sequences) {
  std::vector<LiveSequence*> once;
  for (const auto& sequence : sequences) once.push_back(sequence.get());
  std::ranges::sort(once);
  const auto repeated = std::ranges::unique(once);
  once.erase(repeated.begin(), repeated.end());
  for (LiveSequence* sequence : once) locks_.emplace_back(sequence->mutex());
}

}  // namespace emblema::python
