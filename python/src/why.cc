// WhyReport: why a prompt is found, or not.
#include "emblema/block/why.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/core.h"

namespace emblema::python {
namespace {

nb::object eviction_reason(const BlockAnswer& answer) {
  if (answer.verdict != Verdict::kEvicted) return nb::none();
  return nb::cast(std::string(to_string(answer.reason)));
}

void bind_answer(nb::module_& module) {
  nb::class_<BlockAnswer>(module, "BlockAnswer", "One boundary's worth of a prompt.")
      .def_ro("first_token", &BlockAnswer::first_token, "Position of its first token.")
      .def_ro("tokens", &BlockAnswer::tokens, "How many.")
      .def_prop_ro(
          "verdict",
          [](const BlockAnswer& answer) { return std::string(to_string(answer.verdict)); },
          "\"hit\", \"not whole\", \"never stored\", \"evicted\", \"older than the\n"
          "record\", \"identity differs\" or \"another tenant\".")
      .def_ro("group", &BlockAnswer::group, "The group that lacks its part; \"\": all of them.")
      .def_prop_ro("reason", &eviction_reason, nb::sig("def reason(self) -> str | None"),
                   "Of an eviction.")
      .def_ro("age_uses", &BlockAnswer::age_uses, "Of an eviction: uses of the cache since.")
      .def_ro("fields", &BlockAnswer::fields, "What differs: \"salt\", \"adapter\", \"extra ids\".")
      .def("__repr__", [](const BlockAnswer& answer) {
        return fmt::format("BlockAnswer(first_token={}, tokens={}, verdict='{}')",
                           answer.first_token, answer.tokens, to_string(answer.verdict));
      });
}

}  // namespace

void bind_why(nb::module_& module) {
  bind_answer(module);
  nb::class_<WhyReport>(module, "WhyReport",
                        "Why a prompt is found, or not, block by block. Its text is describe().")
      .def_ro("asked_tokens", &WhyReport::asked_tokens, "Tokens of the prompt.")
      .def_ro("hit_tokens", &WhyReport::hit_tokens, "What start() would find.")
      .def_ro("segment_tokens", &WhyReport::segment_tokens,
              "All tokens, where segment() would find them.")
      .def_ro("boundary_tokens", &WhyReport::boundary_tokens, "A hit ends at a multiple of it.")
      .def_ro("blocks", &WhyReport::blocks,
              "BlockAnswer by BlockAnswer; together they cover the prompt.")
      .def("describe", &WhyReport::describe,
           "A line of the whole, then one for each run of equal answers.")
      .def("__str__", [](const WhyReport& report) {
        return fmt::format("{}", fmt::join(report.describe(), "\n"));
      });
}

}  // namespace emblema::python
