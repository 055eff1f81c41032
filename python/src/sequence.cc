// Sequence: one request's tokens and their place in the cache.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/arguments.h"
#include "python/src/handles.h"
#include "python/src/rows.h"

namespace emblema::python {
namespace {

using Class = nb::class_<SequenceHandle>;

// A Span that owns its list of blocks.
struct OwnSpan {
  std::vector<std::uint32_t> blocks;
  std::uint64_t first_row;
  std::uint64_t rows;
  std::int64_t position;
  std::int64_t delta;
};

std::pair<std::uint64_t, std::uint64_t> pair_of(const TokenRange& range) {
  return {range.first, range.count};
}

Status check_group(const OpenEngine& open, std::uint64_t group) {
  const std::size_t groups = open.engine.layout().groups.size();
  if (group < groups) return {};
  return fail(ErrorCode::Invalid, fmt::format("group is {}; allowed: below {}", group, groups));
}

std::vector<OwnSpan> spans_of(const SequenceHandle& self, const Count& given) {
  const std::uint64_t group = given.of("group");
  return self.live->run([&](Sequence& sequence) -> Result<std::vector<OwnSpan>> {
    if (Status ok = check_group(self.live->engine(), group); !ok) return propagate(ok);
    std::vector<OwnSpan> spans;
    for (const Span& span : sequence.spans(static_cast<std::uint32_t>(group))) {
      spans.push_back({{span.blocks.begin(), span.blocks.end()},
                       span.first_row,
                       span.rows,
                       span.position,
                       span.delta});
    }
    return spans;
  });
}

using BlockNames = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

BlockNames held_blocks(const SequenceHandle& self, const Count& given) {
  const std::uint64_t group = given.of("group");
  return self.live->run([&](Sequence& sequence) -> Result<BlockNames> {
    if (Status ok = check_group(self.live->engine(), group); !ok) return propagate(ok);
    BlockNames names;
    for (const BlockId id : sequence.held_blocks(static_cast<std::uint32_t>(group))) {
      names.emplace_back(id.index, id.generation);
    }
    return names;
  });
}

void bind_span(nb::module_& module) {
  nb::class_<OwnSpan>(module, "Span",
                      "Consecutive tokens whose rows lie in a list of blocks: row `first_row` of\n"
                      "`blocks` is the first token's.")
      .def_ro("blocks", &OwnSpan::blocks, "Block indexes in the group's region, in token order.")
      .def_ro("first_row", &OwnSpan::first_row, "Counted through `blocks`.")
      .def_ro("rows", &OwnSpan::rows, "Tokens.")
      .def_ro("position", &OwnSpan::position, "Stored position of the first token.")
      .def_ro("delta", &OwnSpan::delta, "Attached position = stored position + delta.");
}

template <class Get>
void bind_count(Class& type, const char* name, Get get, const char* doc) {
  type.def_prop_ro(
      name,
      [get](const SequenceHandle& self) {
        return self.live->run(
            [&](Sequence& sequence) -> Result<std::uint64_t> { return (sequence.*get)(); });
      },
      doc);
}

void bind_reading(Class& type) {
  bind_count(type, "tokens", &Sequence::tokens, "Committed, attached segments included.");
  bind_count(type, "reserved_tokens", &Sequence::reserved_tokens, "Reserved and not committed.");
  bind_count(type, "hit_tokens", &Sequence::hit_tokens, "Found by start(): need not be computed.");
  type.def_prop_ro(
          "tenant",
          [](const SequenceHandle& self) {
            return self.live->run(
                [](Sequence& sequence) -> Result<std::string> { return sequence.tenant(); });
          },
          "Whose request it is.")
      .def_prop_ro(
          "replay",
          [](const SequenceHandle& self) {
            return self.live->run(
                [](Sequence& sequence) -> Result<std::pair<std::uint64_t, std::uint64_t>> {
                  return pair_of(sequence.replay());
                });
          },
          "(first, count): tokens that a hit could not bring back the state of. Run them\n"
          "again before anything else, by reserve / rows / commit of the same ids from\n"
          "`first` on, then finish_replay(). count 0: nothing to do, the usual case.")
      .def_prop_ro(
          "next_snapshot",
          [](const SequenceHandle& self) {
            return self.live->run([](Sequence& sequence) -> Result<std::optional<std::uint64_t>> {
              return sequence.next_snapshot();
            });
          },
          "Where a step should end so that the next snapshot can be left; None: none is wanted.")
      .def("spans", &spans_of, nb::arg("group") = 0,
           nb::sig("def spans(self, group: int = 0) -> list[Span]"),
           "What attention sees in a group of blocks.")
      .def("held_blocks", &held_blocks, nb::arg("group") = 0,
           nb::sig("def held_blocks(self, group: int = 0) -> list[tuple[int, int]]"),
           "Names (index, generation) of the blocks held in a group.");
}

std::pair<std::uint64_t, std::uint64_t> truncate(const SequenceHandle& self, const Count& given) {
  const std::uint64_t tokens = given.of("tokens");
  return self.live->change(
      [&](Sequence& sequence) -> Result<std::pair<std::uint64_t, std::uint64_t>> {
        const auto again = sequence.truncate(tokens);
        if (!again) return propagate(again);
        self.live->note_commit(0);
        return pair_of(*again);
      });
}

void commit(const SequenceHandle& self, const TokenIds& given) {
  const std::vector<TokenId> ids = given.of("tokens");
  self.live->change([&](Sequence& sequence) -> Status {
    if (Status ok = sequence.commit(ids); !ok) return ok;
    self.live->note_commit(ids.size());
    return {};
  });
}

std::uint64_t attach(const SequenceHandle& self, const SegmentHandle& segment,
                     const TokenIds& given) {
  const std::vector<TokenId> following = given.of("following");
  const std::shared_ptr<const Segment> held = segment.segment;
  return self.live->change([&](Sequence& sequence) -> Result<std::uint64_t> {
    if (!held) {
      return fail(ErrorCode::Invalid,
                  "the segment was released; allowed: one that still holds its blocks");
    }
    return sequence.attach(*held, following);
  });
}

void bind_writing(Class& type) {
  type.def(
          "reserve",
          [](const SequenceHandle& self, const Count& given) {
            const std::uint64_t tokens = given.of("tokens");
            self.live->change([&](Sequence& sequence) { return sequence.reserve(tokens); });
          },
          nb::arg("tokens"),
          "Room for so many tokens behind what is reserved, all or nothing. Copies the last\n"
          "block where somebody shares it.\n\n"
          "InvalidError: more than step_tokens at once, or past the end of a replay.\n"
          "OutOfBlocksError: the pool, the tenant's quota or the step buffers have no room;\n"
          "nothing was taken.")
      .def(
          "cancel",
          [](const SequenceHandle& self) {
            self.live->change([](Sequence& sequence) -> Status {
              sequence.cancel();
              return {};
            });
          },
          "Gives back what is reserved and not committed.")
      .def("commit", &commit, nb::arg("tokens"),
           "The word that all layers of the next len(tokens) reserved tokens are written and\n"
           "accepted: full blocks are sealed and can be found from now on; what stays\n"
           "reserved may be written again.\n\n"
           "InvalidError, nothing changed: more than reserved, or ids that differ from the\n"
           "prompt given to start().");
}

void bind_changing(Class& type) {
  type.def(
          "fork",
          [](const SequenceHandle& self) {
            Sequence child = self.live->change([](Sequence& sequence) { return sequence.fork(); });
            return SequenceHandle{
                std::make_shared<LiveSequence>(self.live->shared_engine(), std::move(child))};
          },
          "A second sequence with the same past; both copy the last block when they write.\n\n"
          "InvalidError: with rows reserved, or replaying. OutOfBlocksError: the tenant's\n"
          "quota, or no arena slot is free.")
      .def("truncate", &truncate, nb::arg("tokens"),
           "Takes back all but the first `tokens` tokens, reserved ones too. Gives (first,\n"
           "count) of what must be run again, and is expected by commit(); count 0: exact.\n\n"
           "InvalidError, nothing changed: past the committed tokens, inside an attached\n"
           "segment, or replaying.")
      .def(
          "finish_replay",
          [](const SequenceHandle& self) {
            self.live->change([&](Sequence& sequence) -> Status {
              if (Status ok = sequence.finish_replay(); !ok) return ok;
              self.live->note_commit(0);
              return {};
            });
          },
          "Ends a replay. InvalidError: not all of its tokens were run.")
      .def("attach", &attach, nb::arg("segment"), nb::arg("following") = nb::tuple(),
           nb::sig("def attach(self, segment: Segment, following: "
                   "collections.abc.Iterable[int] = ()) -> int"),
           "Puts a segment behind this sequence's tokens, without a copy. `following` are\n"
           "the tokens to be run next; gives back how many of them were stored behind this\n"
           "very segment and need not be run.\n\n"
           "InvalidError: rows reserved, a prompt that is not run to its end, a segment of\n"
           "another identity or engine, or a position inside a chunk. OutOfBlocksError: the\n"
           "tenant's quota. UnsupportedError: rotary frequencies that depend on the length,\n"
           "state in the arena.");
}

void bind_ending(Class& type) {
  type.def(
          "release", [](const SequenceHandle& self) { self.live->release(); },
          "Gives back every block; arrays of its rows become read-only. Again: does\n"
          "nothing. Everything else is InvalidError from then on.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Sequence"))
      .def(
          "__exit__", [](const SequenceHandle& self, const nb::args&) { self.live->release(); },
          nb::sig("def __exit__(self, *exc_info: object) -> None"));
}

}  // namespace

void bind_sequence(nb::module_& module) {
  bind_span(module);
  Class type(module, "Sequence",
             "One sequence of tokens and its place in the cache; made by Engine.start() or\n"
             "fork(). reserve(), then rows() of every layer to write and attention to read,\n"
             "then commit(). Positions count the tokens of attached segments.\n\n"
             "Any thread may call; calls on one sequence take turns, and work without the GIL.\n"
             "Dying gives back every block, once no array of its rows is left; release(), or\n"
             "the end of a `with` block, at once.");
  bind_reading(type);
  bind_writing(type);
  bind_changing(type);
  bind_ending(type);
  bind_row_calls(type);
}

}  // namespace emblema::python
