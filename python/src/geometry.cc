// Geometry: what a model remembers, per layer, per token and per sequence.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/arguments.h"
#include "python/src/model.h"

namespace emblema::python {
namespace {

ModelGeometry make_geometry(nb::handle model, Keywords keywords) {
  GeometryOptions options;
  std::string kv_dtype;
  std::string indexer_dtype;
  std::string state_dtype;
  keywords.text("kv_dtype", &kv_dtype)
      .text("indexer_dtype", &indexer_dtype)
      .text("state_dtype", &state_dtype)
      .flag("speculative_mtp", &options.speculative_mtp)
      .count("block_tokens", &options.block_tokens)
      .small_count("layers", &options.layers)
      .small_count("first_layer", &options.first_layer)
      .small_count("tensor_parallel", &options.tensor_parallel)
      .small_count("tensor_rank", &options.tensor_rank)
      .count("encoder_tokens", &options.encoder_tokens)
      .finish();
  if (!kv_dtype.empty()) options.kv_dtype = value_of(parse_kv_dtype(kv_dtype));
  if (!indexer_dtype.empty()) {
    options.indexer_dtype = value_of(parse_indexer_dtype(indexer_dtype));
  }
  if (!state_dtype.empty()) options.state_dtype = value_of(parse_state_dtype(state_dtype));
  return value_of(ModelGeometry::from(model_of(model).config, options));
}

void bind_stream(nb::module_& module) {
  nb::class_<Stream>(module, "Stream", "One kind of thing that a layer remembers.")
      .def_prop_ro(
          "role", [](const Stream& stream) { return text(to_string(stream.role)); },
          "\"kv\", \"latent\", \"indexer\", \"compressed\", \"window\", \"compressor\",\n"
          "\"state\" or \"cross\".")
      .def_prop_ro(
          "encodings",
          [](const Stream& stream) {
            std::vector<std::string> names;
            for (const EntryRegion& region : stream.regions) {
              names.push_back(fmt::format("{} {} x {}", region.name, region.elements,
                                          to_string(region.encoding)));
            }
            return names;
          },
          "The runs of numbers of one row, in order: \"k 1024 x bf16\".")
      .def_ro("row_bytes", &Stream::entry_bytes, "Bytes of one row.")
      .def_ro("stride_tokens", &Stream::stride_tokens, "Tokens for each row.")
      .def_prop_ro(
          "retention", [](const Stream& stream) { return text(to_string(stream.retention)); },
          "How long rows stay: \"growing\", \"window\", \"fixed\", \"chunk\", "
          "\"encoder\".")
      .def_ro("retention_tokens", &Stream::retention_tokens,
              "Of a window or chunk its length; of the others the rows kept.")
      .def_prop_ro(
          "placement", [](const Stream& stream) { return text(to_string(stream.placement)); },
          "\"paged\" in blocks, or in the \"arena\".");
}

void bind_layer(nb::module_& module) {
  nb::class_<LayerGeometry>(module, "LayerGeometry", "How one layer attends, and over which rows.")
      .def_ro("index", &LayerGeometry::index, "In Geometry.layers.")
      .def_ro("model_layer", &LayerGeometry::model_layer, "In the model.")
      .def_ro("kind", &LayerGeometry::kind,
              "\"mha\", \"gqa\", \"mqa\", \"mla\", \"mla+dsa\", \"cross\" ...")
      .def_ro("window_tokens", &LayerGeometry::window_tokens, "0: sees everything before it.")
      .def_ro("chunk_tokens", &LayerGeometry::chunk_tokens, "0: no chunks.")
      .def_ro("shares_with", &LayerGeometry::shares_with,
              "The layer whose rows it reads; None: its own.")
      .def_ro("is_draft", &LayerGeometry::is_draft, "A draft (MTP) layer.")
      .def_ro("query_heads", &LayerGeometry::query_heads, "Of this rank.")
      .def_ro("kv_heads", &LayerGeometry::kv_heads, "Of this rank; 1 for latents.")
      .def_ro("key_dim", &LayerGeometry::key_dim,
              "Width of a query and of a cached key; of latents their width and the rotary key's.")
      .def_ro("value_dim", &LayerGeometry::value_dim,
              "Width of a cached value; of latents the latent's.")
      .def_ro("scale", &LayerGeometry::scale, "Of the softmax.")
      .def_ro("softcap", &LayerGeometry::softcap, "0: none.")
      .def_ro("has_sinks", &LayerGeometry::has_sinks,
              "A learned logit for each head joins the softmax.")
      .def_ro("has_rope", &LayerGeometry::has_rope, "Queries and keys are rotated by position.")
      .def_ro("streams", &LayerGeometry::streams, "What it remembers; none where it shares.")
      .def_prop_ro(
          "row_bytes",
          [](const LayerGeometry& layer) {
            return layer.streams.empty() ? 0 : layer.streams.front().entry_bytes;
          },
          "Bytes of a row of the first stream; 0 without one.");
}

using Class = nb::class_<ModelGeometry>;

void bind_making(Class& type) {
  type.def(
      "__init__",
      [](ModelGeometry* self, nb::handle model, const nb::kwargs& keywords) {
        new (self) ModelGeometry(make_geometry(model, {"Geometry", keywords}));
      },
      nb::arg("model"), nb::arg("keywords"),
      nb::sig("def __init__(self, model: str | os.PathLike[str] | dict[str, typing.Any] | "
              "ModelConfig, *, kv_dtype: str = 'bf16', indexer_dtype: str | None = None, "
              "state_dtype: str | None = None, block_tokens: int = 0, layers: int = 0, "
              "first_layer: int = 0, tensor_parallel: int = 1, tensor_rank: int = 0, "
              "speculative_mtp: bool = False, encoder_tokens: int = 0) -> None"),
      "kv_dtype: \"bf16\", \"fp16\", \"fp32\", \"fp8\", \"fp8_ds_mla\" ... block_tokens\n"
      "0: derived, else a multiple of the derived number. layers 0: all, else so many\n"
      "from first_layer on. tensor_parallel: ranks that share the heads.\n\n"
      "InvalidError: names the option, its value and what is allowed. UnsupportedError:\n"
      "a type that has no meaning for this attention.");
}

void bind_shape(Class& type) {
  type.def_prop_ro(
          "name", [](const ModelGeometry& geometry) { return geometry.model().name; },
          "The model's.")
      .def_prop_ro(
          "kv_dtype",
          [](const ModelGeometry& geometry) {
            return text(to_string(geometry.options().kv_dtype));
          },
          "How cached numbers are stored.")
      .def_prop_ro(
          "layers",
          [](const ModelGeometry& geometry) {
            return std::vector<LayerGeometry>(geometry.layers().begin(), geometry.layers().end());
          },
          "One LayerGeometry for each layer.")
      .def_prop_ro(
          "groups",
          [](const ModelGeometry& geometry) {
            std::vector<std::string> names;
            for (const CacheGroup& group : geometry.groups()) names.push_back(group.name);
            return names;
          },
          "Names of the groups of blocks: \"growing\", \"window 128\" ...")
      .def_prop_ro(
          "block_tokens",
          [](const ModelGeometry& geometry) {
            std::vector<std::uint64_t> tokens;
            for (const CacheGroup& group : geometry.groups()) tokens.push_back(group.block_tokens);
            return tokens;
          },
          "Tokens of a block, for each group.")
      .def_prop_ro(
          "kv_dtype",
          [](const ModelGeometry& geometry) {
            return text(to_string(geometry.options().kv_dtype));
          },
          "How rows are stored: \"bf16\" ...")
      .def_prop_ro("has_arena", &ModelGeometry::has_arena,
                   "Something is kept outside blocks: windows of DeepSeek-V4, recurrent state.")
      .def_prop_ro("attention_in_words", &ModelGeometry::attention_in_words, "\"61 x MLA\"");
}

void bind_sizes(Class& type) {
  type.def_prop_ro(
          "growing_bytes_per_token",
          [](const ModelGeometry& geometry) {
            return fraction(value_of(geometry.growing_bytes_per_token()));
          },
          nb::sig("def growing_bytes_per_token(self) -> fractions.Fraction"),
          "Payload of one more token, exactly; windows do not grow.")
      .def(
          "bytes_per_sequence",
          [](const ModelGeometry& geometry, const Count& tokens) {
            return value_of(geometry.bytes_per_sequence(tokens.of("tokens")));
          },
          nb::arg("tokens"),
          "Payload of one sequence of so many tokens: windows capped, strides floored, no\n"
          "rounding to blocks.")
      .def_prop_ro(
          "fixed_bytes_per_sequence",
          [](const ModelGeometry& geometry) {
            return value_of(geometry.fixed_bytes_per_sequence());
          },
          "The cap that windows and chunks reach.")
      .def_prop_ro(
          "state_bytes_per_sequence",
          [](const ModelGeometry& geometry) {
            return value_of(geometry.state_bytes_per_sequence());
          },
          "Recurrent and compressor state.")
      .def_prop_ro(
          "fingerprint",
          [](const ModelGeometry& geometry) {
            return nb::bytes(geometry.fingerprint().bytes.data(),
                             geometry.fingerprint().bytes.size());
          },
          "32 bytes, equal where the bytes of two caches are interchangeable.")
      .def("__repr__", [](const ModelGeometry& geometry) {
        return fmt::format("Geometry({}, {}, {})", geometry.model().name,
                           geometry.attention_in_words(), to_string(geometry.options().kv_dtype));
      });
}

}  // namespace

nb::object fraction(const Rational& value) {
  return nb::module_::import_("fractions").attr("Fraction")(value.numerator(), value.denominator());
}

void bind_geometry(nb::module_& module) {
  bind_stream(module);
  bind_layer(module);
  Class type(module, "Geometry",
             "What a model must remember, exactly. Immutable; any thread may read.");
  bind_making(type);
  bind_shape(type);
  bind_sizes(type);
}

}  // namespace emblema::python
