// _core.Step: what emblema.transformers drives a forward with.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "emblema/layer/prefill.h"
#include "python/src/handles.h"
#include "python/src/step.h"

namespace emblema::python {
namespace {

using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using GivenRow = std::tuple<const SequenceHandle*, std::vector<std::uint32_t>, std::uint64_t>;

class StepHandle {
 public:
  explicit StepHandle(const EngineHandle& engine)
      : engine_(engine.open), step_(engine_->engine, engine_->threads.get()) {}

  void begin(const std::vector<GivenRow>& rows, std::uint64_t columns) {
    std::vector<std::shared_ptr<LiveSequence>> sequences;
    for (const auto& [handle, own, position] : rows) sequences.push_back(handle->live);
    check(unlocked(sequences, [&]() -> Status {
      std::vector<StepRow> own;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        auto sequence = sequences[i]->locked_sequence();
        if (!sequence) return propagate(sequence);
        const auto& [handle, tokens, position] = rows[i];
        own.push_back({*sequence, tokens, position});
      }
      return step_.begin(std::move(own), columns);
    }));
    sequences_ = std::move(sequences);
  }

  void write(std::uint32_t layer, const WritableArray& keys, const WritableArray& values) {
    const HeadTensor key_rows = value_of(head_tensor("keys", keys));
    const HeadTensor value_rows = value_of(head_tensor("values", values));
    check(unlocked(sequences_, [&] { return step_.write(layer, key_rows, value_rows); }));
  }

  void attend(std::uint32_t layer, const WritableArray& query, const WritableArray& out,
              AttendOptions options, const std::optional<FloatArray>& sinks,
              const std::optional<FloatArray>& key_up, const std::optional<FloatArray>& value_up) {
    const HeadTensor queries = value_of(head_tensor("query", query));
    const HeadTensor results = value_of(head_tensor("out", out));
    if (sinks) options.sinks = {sinks->data(), sinks->size()};
    LatentExpansion expansion;
    if (key_up && value_up) {
      expansion = expansion_of(*key_up, *value_up);
      options.expansion = &expansion;
    }
    check(unlocked(sequences_, [&] { return step_.attend(layer, queries, results, options); }));
  }

  bool prefers_absorbed(std::uint32_t layer, std::uint64_t content_dim,
                        std::uint64_t value_dim) const {
    const LayerGeometry& facts = *value_of(engine_->layer(layer));
    LayerDims dims;
    dims.kind = RowKind::kLatent;
    dims.query_heads = facts.query_heads;
    dims.latent_dim = facts.value_dim;
    dims.tail_dim = facts.key_dim - facts.value_dim;
    dims.content_dim = content_dim;
    dims.value_dim = value_dim;
    PrefillCost sum;
    for (const StepRow& row : step_.rows()) {
      const PrefillCost one = prefill_cost(dims, row.tokens(), row.position + row.tokens());
      sum.expanded += one.expanded;
      sum.absorbed += one.absorbed;
    }
    return sum.cheaper() == AttentionForm::kAbsorbed;
  }

 private:
  // work() with the sequences' locks and without the GIL; released sequences are Invalid.
  template <class Work>
  static Status unlocked(const std::vector<std::shared_ptr<LiveSequence>>& sequences, Work&& work) {
    const nb::gil_scoped_release released;
    const SequencesLock lock(sequences);
    for (const auto& one : sequences) {
      if (const auto live = one->locked_sequence(); !live) return propagate(live);
    }
    return work();
  }

  static LatentExpansion expansion_of(const FloatArray& key_up, const FloatArray& value_up) {
    if (key_up.ndim() != 3 || value_up.ndim() != 3) {
      raise({ErrorCode::Invalid, "key_up and value_up have 3 dimensions: [heads][width][latent]"});
    }
    return {.key_up = {key_up.data(), key_up.size()},
            .value_up = {value_up.data(), value_up.size()},
            .content_dim = static_cast<std::uint32_t>(key_up.shape(1)),
            .value_dim = static_cast<std::uint32_t>(value_up.shape(1))};
  }

  std::shared_ptr<OpenEngine> engine_;  // first: it goes last
  std::vector<std::shared_ptr<LiveSequence>> sequences_;
  Step step_;
};

}  // namespace

void bind_step(nb::module_& module) {
  nb::class_<StepHandle>(module, "Step",
                         "One forward of a batch over an engine: where each sequence's new rows "
                         "go, and which tokens ask. One thread at a time. What "
                         "emblema.transformers is made with; its interface may change.")
      .def(nb::init<const EngineHandle&>(), nb::arg("engine"))
      .def("begin", &StepHandle::begin, nb::arg("rows"), nb::arg("columns"),
           "rows: for each sequence of the batch (sequence, columns of its tokens, position of the "
           "first of them). Every token is committed or reserved. InvalidError else.")
      .def("write", &StepHandle::write, nb::arg("layer"), nb::arg("keys"), nb::arg("values"),
           nb::sig("def write(self, layer: int, keys: typing.Any, values: typing.Any) -> None"),
           "Stores new rows: keys [sequences][kv_heads][columns][key_dim], values alike; latents "
           "and rotary keys of a latent layer. float32, float16 or bfloat16, read in place; keys "
           "come rotated. Columns that are rows already, and padding, are left out.")
      .def(
          "attend",
          [](StepHandle& step, std::uint32_t layer, const WritableArray& query,
             const WritableArray& out, double scale, double softcap, std::uint64_t window,
             const std::optional<FloatArray>& sinks, const std::optional<FloatArray>& key_up,
             const std::optional<FloatArray>& value_up) {
            step.attend(layer, query, out, {.scale = scale, .softcap = softcap, .window = window},
                        sinks, key_up, value_up);
          },
          nb::arg("layer"), nb::arg("query"), nb::arg("out"), nb::kw_only(), nb::arg("scale"),
          nb::arg("softcap") = 0.0, nb::arg("window") = 0, nb::arg("sinks") = nb::none(),
          nb::arg("key_up") = nb::none(), nb::arg("value_up") = nb::none(),
          nb::sig("def attend(self, layer: int, query: typing.Any, out: typing.Any, *, "
                  "scale: float, softcap: float = 0.0, window: int = 0, "
                  "sinks: typing.Any | None = None, key_up: typing.Any | None = None, "
                  "value_up: typing.Any | None = None) -> None"),
          "query [sequences][query_heads][columns][key_dim], rotated -> out [same][value_dim], "
          "written in place, 0 in padding. Latent layers: absorbed queries and results, or with "
          "key_up [heads][content][latent] and value_up [heads][value][latent] expanded ones.")
      .def("prefers_absorbed", &StepHandle::prefers_absorbed, nb::arg("layer"),
           nb::arg("content_dim"), nb::arg("value_dim"),
           "Whether the absorbed form takes fewer multiplications for this step.");
}

}  // namespace emblema::python
