// ModelConfig: the facts of a config.json.
#include "python/src/model.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/arguments.h"

namespace emblema::python {
namespace {

const char* family_name(AttentionFamily family) {
  switch (family) {
    case AttentionFamily::kGrouped:
      return "grouped";
    case AttentionFamily::kLatent:
      return "latent";
    case AttentionFamily::kCompressed:
      return "compressed";
  }
  return "";
}

const char* reach_name(LayerReach reach) {
  switch (reach) {
    case LayerReach::kFull:
      return "full";
    case LayerReach::kWindow:
      return "window";
    case LayerReach::kChunk:
      return "chunk";
  }
  return "";
}

const char* cache_name(LayerCache cache) {
  switch (cache) {
    case LayerCache::kOwn:
      return "own";
    case LayerCache::kShared:
      return "shared";
    case LayerCache::kCross:
      return "cross";
    case LayerCache::kNone:
      return "none";
  }
  return "";
}

LoadedModel load(const std::string& source) {
  return {value_of(load_model_config(source)), source, ""};
}

LoadedModel parse(std::string json, const std::string& name) {
  return {value_of(parse_model_config(json, name)), "", std::move(json)};
}

LoadedModel from_json(nb::handle given, const std::string& name) {
  if (nb::isinstance<nb::str>(given)) return parse(nb::cast<std::string>(given), name);
  const nb::object dumps = nb::module_::import_("json").attr("dumps");
  return parse(nb::cast<std::string>(dumps(given)), name);
}

void bind_layer_facts(nb::module_& module) {
  nb::class_<LayerFacts>(
      module, "LayerFacts",
      "One layer of a ModelConfig: what it attends to, and the widths that its cache\n"
      "follows from.")
      .def_prop_ro(
          "reach", [](const LayerFacts& layer) { return reach_name(layer.reach); },
          "What it sees: \"full\", \"window\" or \"chunk\".")
      .def_ro("window_tokens", &LayerFacts::window_tokens,
              "Length of the window or chunk in tokens; 0 without one.")
      .def_prop_ro(
          "cache", [](const LayerFacts& layer) { return cache_name(layer.cache); },
          "Whose keys and values: \"own\", \"shared\", \"cross\" or \"none\".")
      .def_ro("num_attention_heads", &LayerFacts::num_attention_heads, "Query heads.")
      .def_ro("num_key_value_heads", &LayerFacts::num_key_value_heads,
              "KV heads of grouped attention.")
      .def_ro("head_dim", &LayerFacts::head_dim, "Width of a key of grouped attention.")
      .def_ro("v_head_dim", &LayerFacts::v_head_dim, "Width of a value of grouped attention.")
      .def_ro("has_sinks", &LayerFacts::has_sinks,
              "A learned logit for each head joins the softmax.")
      .def_ro("has_rope", &LayerFacts::has_rope, "Queries and keys are rotated by position.");
}

using Class = nb::class_<LoadedModel>;

void bind_origin(Class& type) {
  type.def_static(
          "load", [](nb::handle source) { return model_of(source); }, nb::arg("source"),
          nb::sig("def load(source: str | os.PathLike[str]) -> ModelConfig"),
          "Reads a preset (\"deepseek-v3\"), a config.json, or the folder that holds one.\n\n"
          "NotFoundError: no such preset or file, with the nearest names. InvalidError:\n"
          "names the field, its value and what is allowed. UnsupportedError: an attention\n"
          "that is not known here.")
      .def_static(
          "from_json", &from_json, nb::arg("json"), nb::arg("name") = "config",
          nb::sig("def from_json(json: str | dict[str, typing.Any], name: str = 'config') "
                  "-> ModelConfig"),
          "Reads the text of a config.json, or its content as a dict. `name` stands for the\n"
          "model in messages. Errors as load().")
      .def_prop_ro(
          "name", [](const LoadedModel& model) { return model.config.name; },
          "Preset, file or the name given.")
      .def_prop_ro(
          "model_type", [](const LoadedModel& model) { return model.config.model_type; },
          "Of the language part.")
      .def_prop_ro(
          "architectures", [](const LoadedModel& model) { return model.config.architectures; },
          "As the config lists them.")
      .def_prop_ro(
          "family", [](const LoadedModel& model) { return family_name(model.config.family); },
          "\"grouped\", \"latent\" or \"compressed\".");
}

void bind_facts(Class& type) {
  type.def_prop_ro(
          "hidden_size", [](const LoadedModel& model) { return model.config.hidden_size; },
          "0 where the config does not say.")
      .def_prop_ro(
          "num_hidden_layers",
          [](const LoadedModel& model) { return model.config.num_hidden_layers; },
          "Without draft layers.")
      .def_prop_ro(
          "num_attention_heads",
          [](const LoadedModel& model) { return model.config.num_attention_heads; },
          "Of the widest layer.")
      .def_prop_ro(
          "max_positions", [](const LoadedModel& model) { return model.config.max_positions; },
          "0 where the config does not say.")
      .def_prop_ro(
          "q_lora_rank", [](const LoadedModel& model) { return model.config.q_lora_rank; },
          "Of latent attention; None: queries straight from the hidden state.")
      .def_prop_ro(
          "kv_lora_rank", [](const LoadedModel& model) { return model.config.kv_lora_rank; },
          "Width of a latent; 0 of other attention.")
      .def_prop_ro(
          "qk_nope_head_dim",
          [](const LoadedModel& model) { return model.config.qk_nope_head_dim; },
          "Of latent attention: channels of a head without rotation.")
      .def_prop_ro(
          "qk_rope_head_dim",
          [](const LoadedModel& model) { return model.config.qk_rope_head_dim; },
          "Of latent attention: channels of a head that rotate.")
      .def_prop_ro(
          "v_head_dim", [](const LoadedModel& model) { return model.config.v_head_dim; },
          "Of latent attention: width of a head's value.")
      .def_prop_ro(
          "num_nextn_predict_layers",
          [](const LoadedModel& model) { return model.config.num_nextn_predict_layers; },
          "Draft (MTP) layers, not in `layers`.")
      .def_prop_ro(
          "layers", [](const LoadedModel& model) { return model.config.layers; },
          "num_hidden_layers of them.")
      .def_prop_ro(
          "notes", [](const LoadedModel& model) { return model.config.notes; },
          "What was assumed or ignored, in sentences.")
      .def_ro("source", &LoadedModel::source, "What load() was given; \"\" of a text.")
      .def_ro("json", &LoadedModel::json, "The text that from_json() was given, else \"\".")
      .def("__repr__", [](const LoadedModel& model) {
        return fmt::format("ModelConfig({}, {} layers)", model.config.name,
                           model.config.num_hidden_layers);
      });
}

}  // namespace

LoadedModel model_of(nb::handle given) {
  if (nb::isinstance<LoadedModel>(given)) return nb::cast<LoadedModel>(given);
  if (nb::isinstance<nb::dict>(given)) return from_json(given, "config");
  nb::object path = nb::borrow(given);
  if (nb::hasattr(given, "__fspath__")) path = given.attr("__fspath__")();
  std::string source;
  if (nb::try_cast(path, source)) return load(source);
  raise_invalid(
      fmt::format("model is a {}; allowed: a preset's name, a path, a dict, a "
                  "ModelConfig",
                  nb::cast<std::string>(given.type().attr("__name__"))));
}

ModelGeometry geometry_of(nb::handle given, const std::string& kv_dtype) {
  if (nb::isinstance<ModelGeometry>(given)) {
    if (!kv_dtype.empty()) {
      raise_invalid(fmt::format("kv_dtype is {}; allowed: None with a Geometry, which has its own",
                                kv_dtype));
    }
    return nb::cast<ModelGeometry>(given);
  }
  GeometryOptions options;
  if (!kv_dtype.empty()) options.kv_dtype = value_of(parse_kv_dtype(kv_dtype));
  return value_of(ModelGeometry::from(model_of(given).config, options));
}

void bind_model(nb::module_& module) {
  bind_layer_facts(module);
  Class type(module, "ModelConfig",
             "Facts of one model, read from a config.json and checked: no derived number is\n"
             "here (see Geometry). Made by load() or from_json().");
  bind_origin(type);
  bind_facts(type);
  module.def(
      "presets",
      [] {
        std::vector<std::string> names;
        for (const Preset& preset : presets()) names.emplace_back(preset.name);
        return names;
      },
      "Names of the models that come with the package, sorted.");
}

}  // namespace emblema::python
