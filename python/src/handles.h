// What the Python objects of an engine hold. Arrays and DLPack tensors that were lent hold the same
// things: the memory under them stays as long as anybody has it, whichever Python object goes
// first.
//
// Threads and the GIL: a lock here is never waited for with the GIL held, else the thread that has
// the lock and wants the GIL would wait for ever. LiveSequence::run and ::change release the GIL,
// then take the lock; Python objects are touched with the GIL and without the lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "emblema/kernels/attention.h"
#include "emblema/os/thread_pool.h"
#include "emblema/session/engine.h"
#include "python/src/core.h"

namespace emblema::python {

// Scratch for attention: as many as there were calls at once, each grown to its largest call.
class WorkspacePool {
 public:
  // One workspace, the caller's until this dies. Any thread, with or without the GIL.
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(workspace_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    AttentionWorkspace* get() const { return workspace_.get(); }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<AttentionWorkspace> workspace_;
  };

 private:
  std::unique_ptr<AttentionWorkspace> take();
  void give_back(std::unique_ptr<AttentionWorkspace> workspace);
  std::mutex mutex_;
  std::vector<std::unique_ptr<AttentionWorkspace>> idle_;
};

// An engine and what its calls share. Any thread.
struct OpenEngine {
  explicit OpenEngine(Engine opened) : engine(std::move(opened)) {}
  Engine engine;
  std::unique_ptr<ThreadPool> threads;  // null: calls use their own thread only
  std::optional<Isa> isa;               // none: the widest of this machine
  WorkspacePool workspaces;

  AttentionOptions attention_options(const WorkspacePool::Lease& lease) const {
    return {.workspace = lease.get(), .threads = threads.get(), .isa = isa};
  }
  // Of a layer that shares another's rows: that layer, whose streams they are.
  // Invalid: no such layer.
  Result<const LayerGeometry*> layer(std::uint64_t index) const;
};

// A sequence, or a segment's builder and its sequence, with the lock that lets one thread at it.
class LiveSequence {
 public:
  using What = std::variant<Sequence, SegmentBuilder>;
  LiveSequence(std::shared_ptr<OpenEngine> engine, What what)
      : engine_(std::move(engine)), what_(std::move(what)) {}
  ~LiveSequence();
  LiveSequence(const LiveSequence&) = delete;
  LiveSequence& operator=(const LiveSequence&) = delete;

  OpenEngine& engine() const { return *engine_; }
  const std::shared_ptr<OpenEngine>& shared_engine() const { return engine_; }

  // work(Sequence&) -> Result<T>, with the lock and without the GIL. Raises its error, and
  // InvalidError of a sequence that was released. REQUIRES: the GIL.
  template <class Work>
  auto run(Work&& work);

  // The same for what changes the sequence: rows that were lent before end, where it succeeds.
  template <class Work>
  auto change(Work&& work);

  // Gives back every block; what was lent ends. Again: does nothing. REQUIRES: the GIL.
  void release();

  // Seals the builder. Raises InvalidError of a plain sequence. REQUIRES: the GIL.
  Segment seal();

  // For those who lock several (SequencesLock). REQUIRES: the lock. Invalid: it was released.
  Result<Sequence*> locked_sequence();
  // Of a Rows object: whether its rows may still be touched. With the lock it stays so.
  std::uint64_t generation() const { return generation_; }
  std::mutex& mutex() { return mutex_; }

  // Where rows() begins: behind what is committed, or replayed. REQUIRES: the lock.
  std::uint64_t write_position();
  void note_commit(std::uint64_t tokens);  // counts what a replay has run. REQUIRES: the lock

  // Makes `array` read-only when the rows end. REQUIRES: the GIL.
  void lend(const nb::object& array);

  // Work of step-wise callers that hold the lock themselves: end_rows() with it, then, with the
  // GIL and without it, seal_lent().
  void end_rows() { ++generation_; }
  void seal_lent();

 private:
  template <class Work>
  auto locked(Work&& work, bool changes) -> std::invoke_result_t<Work, Sequence&>;

  std::shared_ptr<OpenEngine> engine_;  // first: it goes last
  std::mutex mutex_;                    // guards what_ and replayed_
  std::optional<What> what_;            // none: it was released
  std::uint64_t replayed_ = 0;          // of the replay under way
  std::atomic<std::uint64_t> generation_{0};
  std::vector<nb::object> lent_;  // weak references to arrays; guarded by the GIL
};

// The locks of several sequences, each once, in an order that all callers share.
// REQUIRES: without the GIL, and none of them is held.
class SequencesLock {
 public:
  explicit SequencesLock(std::span<const std::shared_ptr<LiveSequence>> sequences);

 private:
  std::vector<std::unique_lock<std::mutex>> locks_;
};

// emblema.Engine, .Sequence, .SegmentBuilder and .Segment
struct EngineHandle {
  std::shared_ptr<OpenEngine> open;
};
struct SequenceHandle {
  std::shared_ptr<LiveSequence> live;
};
struct BuilderHandle {
  std::shared_ptr<LiveSequence> live;
};
struct SegmentHandle {
  std::shared_ptr<OpenEngine> engine;
  std::shared_ptr<const Segment> segment;  // null: it was released
};

template <class Work>
auto LiveSequence::locked(Work&& work, bool changes) -> std::invoke_result_t<Work, Sequence&> {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(mutex_);
  auto sequence = locked_sequence();
  if (!sequence) return propagate(sequence);
  auto result = work(**sequence);
  if (result && changes) end_rows();
  return result;
}

template <class Work>
auto LiveSequence::run(Work&& work) {
  return value_of(locked(std::forward<Work>(work), false));
}

template <class Work>
auto LiveSequence::change(Work&& work) {
  auto result = locked(std::forward<Work>(work), true);
  if (result) seal_lent();
  return value_of(std::move(result));
}

}  // namespace emblema::python
