// Segment and SegmentBuilder: a span that is encoded once and attached anywhere.
#include <nanobind/stl/string.h>

#include "python/src/handles.h"

namespace emblema::python {
namespace {

const Segment& held(const SegmentHandle& handle) {
  if (!handle.segment) {
    raise_invalid("the segment was released; allowed: one that still holds its blocks");
  }
  return *handle.segment;
}

// The blocks go without the GIL.
void let_go(SegmentHandle& handle) {
  std::shared_ptr<const Segment> segment = std::move(handle.segment);
  const nb::gil_scoped_release released;
  segment.reset();
}

}  // namespace

void bind_segment(nb::module_& module) {
  nb::class_<SegmentHandle>(
      module, "Segment",
      "A stored span of tokens, encoded alone from position 0; Sequence.attach() puts\n"
      "it behind a sequence without a copy. Holds its blocks until release() or until\n"
      "nobody has it; a context manager. Any thread may read.")
      .def_prop_ro(
          "tokens", [](const SegmentHandle& handle) { return held(handle).tokens(); }, "How many.")
      .def("release", &let_go, "Gives the blocks back; what attached them keeps its own hold.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Segment"))
      .def(
          "__exit__", [](SegmentHandle& handle, const nb::args&) { let_go(handle); },
          nb::sig("def __exit__(self, *exc_info: object) -> None"));

  nb::class_<BuilderHandle>(
      module, "SegmentBuilder",
      "Encodes a segment that was not stored (or not whole): run `sequence` like any\n"
      "other, from its hit_tokens to the end of the span, then seal().")
      .def_prop_ro(
          "sequence", [](const BuilderHandle& handle) { return SequenceHandle{handle.live}; },
          nb::rv_policy::move, "The sequence to run.")
      .def(
          "seal",
          [](const BuilderHandle& handle) {
            return SegmentHandle{handle.live->shared_engine(),
                                 std::make_shared<const Segment>(handle.live->seal())};
          },
          "Ends the building: the segment can be found from now on. Again: another hold on\n"
          "the same.\n\n"
          "InvalidError: tokens missing, or rows still reserved.")
      .def(
          "release", [](const BuilderHandle& handle) { handle.live->release(); },
          "Gives back what was not sealed, as Sequence.release().");
}

}  // namespace emblema::python
