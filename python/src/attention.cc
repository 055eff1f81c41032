// decode_attention and prefill_attention over sequences of one engine.
#include <optional>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "python/src/arguments.h"
#include "python/src/arrays.h"
#include "python/src/handles.h"

namespace emblema::python {
namespace {

// What both functions are asked for, but for what only prefill has.
struct Asked {
  std::vector<std::shared_ptr<LiveSequence>> sequences;
  std::uint32_t layer = 0;
  std::vector<std::uint64_t> queries;               // one for each sequence
  std::vector<std::optional<std::uint64_t>> first;  // none: they are its last positions
  std::optional<double> scale;
  float key_scale = 1.0F;
  float value_scale = 1.0F;
  std::optional<Floats> sinks;
  std::uint64_t tokens = 0;
};

// The widths that arrays are checked against.
struct Widths {
  std::uint32_t heads = 0;
  std::uint32_t key_dim = 0;    // of a query
  std::uint32_t value_dim = 0;  // of a result
};

std::vector<std::shared_ptr<LiveSequence>> sequences_of(nb::handle given) {
  std::vector<std::shared_ptr<LiveSequence>> sequences;
  if (nb::isinstance<SequenceHandle>(given)) {
    sequences.push_back(nb::cast<SequenceHandle>(given).live);
    return sequences;
  }
  if (!nb::hasattr(given, "__iter__")) {
    raise_invalid(fmt::format("sequences is a {}; allowed: a Sequence or several",
                              nb::cast<std::string>(given.type().attr("__name__"))));
  }
  for (const nb::handle one : nb::iter(given)) {
    const std::string field = fmt::format("sequences[{}]", sequences.size());
    if (!nb::isinstance<SequenceHandle>(one)) {
      raise_invalid(fmt::format("{} is a {}; allowed: a Sequence", field,
                                nb::cast<std::string>(one.type().attr("__name__"))));
    }
    sequences.push_back(nb::cast<SequenceHandle>(one).live);
    if (sequences.back()->shared_engine() != sequences.front()->shared_engine()) {
      raise_invalid(fmt::format("{} is of another engine; allowed: that of sequences[0]", field));
    }
  }
  if (sequences.empty()) raise_invalid("sequences is empty; allowed: 1 and more");
  return sequences;
}

// One number for each sequence: of an integer the same for all.
std::vector<std::uint64_t> numbers_of(std::string_view field, nb::handle given,
                                      std::size_t sequences) {
  if (PyIndex_Check(given.ptr()) != 0) {
    return std::vector<std::uint64_t>(sequences, count_of(field, given));
  }
  std::vector<std::uint64_t> numbers;
  if (nb::hasattr(given, "__iter__")) {
    for (const nb::handle one : nb::iter(given)) {
      numbers.push_back(count_of(fmt::format("{}[{}]", field, numbers.size()), one));
    }
  }
  if (numbers.size() != sequences) {
    raise_invalid(
        fmt::format("{} has {} numbers; allowed: an integer, or one for each of the {} "
                    "sequences",
                    field, numbers.size(), sequences));
  }
  return numbers;
}

void read_queries(nb::handle given, Asked* asked) {
  const std::size_t sequences = asked->sequences.size();
  if (given.is_none()) {
    if (asked->tokens % sequences != 0) {
      raise_invalid(
          fmt::format("q has {} query rows for {} sequences; allowed: a multiple, or "
                      "queries=[...]",
                      asked->tokens, sequences));
    }
    asked->queries.assign(sequences, asked->tokens / sequences);
    return;
  }
  asked->queries = numbers_of("queries", given, sequences);
  std::uint64_t rest = asked->tokens;
  for (const std::uint64_t queries : asked->queries) {
    if (queries > rest) rest = UINT64_MAX;  // too many: so they stay
    if (rest != UINT64_MAX) rest -= queries;
  }
  if (rest != 0) {
    raise_invalid(
        fmt::format("queries are not the {} query rows of q; allowed: numbers that add "
                    "up to them",
                    asked->tokens));
  }
}

void read_first(nb::handle given, Asked* asked) {
  asked->first.assign(asked->sequences.size(), std::nullopt);
  if (given.is_none()) return;
  const auto numbers = numbers_of("first", given, asked->sequences.size());
  asked->first.assign(numbers.begin(), numbers.end());
}

float scale_of(const char* name, nb::handle given) {
  float value = 1.0F;
  if (given.is_none() || nb::try_cast(given, value)) return value;
  raise_invalid(fmt::format("{} is no number; allowed: float", name));
}

Asked asked_of(nb::handle sequences, const Count& layer, Keywords& keywords) {
  Asked asked;
  asked.sequences = sequences_of(sequences);
  const std::uint64_t index = layer.of("layer");
  value_of(asked.sequences.front()->engine().layer(index));
  asked.layer = static_cast<std::uint32_t>(index);
  if (const nb::object scale = keywords.find("scale"); !scale.is_none()) {
    double value = 0;
    if (!nb::try_cast(scale, value)) raise_invalid("scale is no number; allowed: float, None");
    asked.scale = value;
  }
  asked.key_scale = scale_of("key_scale", keywords.find("key_scale"));
  asked.value_scale = scale_of("value_scale", keywords.find("value_scale"));
  return asked;
}

const LayerGeometry& layer_of(const Asked& asked) {
  return asked.sequences.front()->engine().engine.geometry().layers()[asked.layer];
}

// Everything but the arrays, once q is known.
void read_rest(Keywords& keywords, Asked* asked) {
  read_queries(keywords.find("queries"), asked);
  read_first(keywords.find("first"), asked);
  if (const nb::object sinks = keywords.find("sinks"); !sinks.is_none()) {
    asked->sinks = floats_of("sinks", sinks, {layer_of(*asked).query_heads});
  }
}

// Where a sequence's queries begin. REQUIRES: its lock.
Result<std::uint64_t> first_of(const Asked& asked, std::size_t i, const Sequence& sequence) {
  if (asked.first[i]) return *asked.first[i];
  const std::uint64_t end = asked.sequences[i]->write_position() + sequence.reserved_tokens();
  if (asked.queries[i] <= end) return end - asked.queries[i];
  return fail(ErrorCode::Invalid,
              fmt::format("sequences[{}] has {} tokens for {} query rows; allowed: up to so many, "
                          "or first=...",
                          i, end, asked.queries[i]));
}

// One call's inputs over all sequences. REQUIRES: their locks, until the call has ended.
struct Batch {
  AttentionInputs inputs;
  std::vector<SequenceInputs> sequences;
};

Status describe(const Asked& asked, const float* q, Batch* batch) {
  std::uint64_t first_query = 0;
  for (std::size_t i = 0; i < asked.sequences.size(); ++i) {
    const auto sequence = asked.sequences[i]->locked_sequence();
    if (!sequence) return propagate(sequence);
    const auto first = first_of(asked, i, **sequence);
    if (!first) return propagate(first);
    const auto inputs = (*sequence)->inputs(asked.layer, q, *first, asked.queries[i]);
    if (!inputs) return propagate(inputs);
    if (i == 0) batch->inputs = *inputs;
    batch->sequences.push_back(inputs->sequences.front());
    batch->sequences.back().first_query = first_query;
    first_query += asked.queries[i];
  }
  AttentionInputs& inputs = batch->inputs;
  inputs.tokens = asked.tokens;
  inputs.sequences = batch->sequences;
  inputs.rows.key_scale = asked.key_scale;
  inputs.rows.value_scale = asked.value_scale;
  if (asked.scale) inputs.shape.scale = *asked.scale;
  if (asked.sinks) inputs.sinks = asked.sinks->values;
  return {};
}

nb::tuple attend(const Asked& asked, nb::handle q, const Widths& widths, Keywords& keywords,
                 const LatentExpansion* expansion) {
  const Floats queries = floats_of("q", q, {kAnyLength, widths.heads, widths.key_dim});
  const auto tokens = static_cast<std::int64_t>(asked.tokens);
  const Results out =
      results_of("out", keywords.find("out"), q, {tokens, widths.heads, widths.value_dim});
  const Results lse = results_of("lse", keywords.find("lse"), q, {tokens, widths.heads});
  keywords.finish();
  check([&]() -> Status {
    const nb::gil_scoped_release released;
    const SequencesLock lock(asked.sequences);
    Batch batch;
    if (Status ok = describe(asked, queries.values.data(), &batch); !ok) return ok;
    OpenEngine& open = asked.sequences.front()->engine();
    const WorkspacePool::Lease workspace(open.workspaces);
    return prefill_attention(batch.inputs, out.values, lse.values, expansion,
                             open.attention_options(workspace));
  }());
  return nb::make_tuple(out.object, lse.object);
}

std::uint64_t rows_of(nb::handle q) {
  const AnyArray array = array_of("q", q);
  return array.ndim() == 0 ? 0 : array.shape(0);
}

nb::tuple decode(nb::handle sequences, const Count& layer, nb::handle q, const nb::kwargs& given) {
  Keywords keywords("decode_attention", given);
  Asked asked = asked_of(sequences, layer, keywords);
  const LayerGeometry& geometry = layer_of(asked);
  const Widths widths{geometry.query_heads, geometry.key_dim, geometry.value_dim};
  asked.tokens = rows_of(q);
  read_rest(keywords, &asked);
  return attend(asked, q, widths, keywords, nullptr);
}

nb::tuple prefill(nb::handle sequences, const Count& layer, nb::handle q, const nb::kwargs& given) {
  Keywords keywords("prefill_attention", given);
  Asked asked = asked_of(sequences, layer, keywords);
  const LayerGeometry& geometry = layer_of(asked);
  Widths widths{geometry.query_heads, geometry.key_dim, geometry.value_dim};
  asked.tokens = rows_of(q);
  read_rest(keywords, &asked);
  const nb::object key_up = keywords.find("key_up");
  const nb::object value_up = keywords.find("value_up");
  if (key_up.is_none() && value_up.is_none()) {
    return attend(asked, q, widths, keywords, nullptr);
  }
  if (key_up.is_none() || value_up.is_none()) {
    raise_invalid("key_up or value_up is None; allowed: both or none of them");
  }
  const Shape wanted = {widths.heads, kAnyLength, widths.value_dim};
  const Floats keys = floats_of("key_up", key_up, wanted);
  const Floats values = floats_of("value_up", value_up, wanted);
  const LatentExpansion expansion{.key_up = keys.values,
                                  .value_up = values.values,
                                  .content_dim = static_cast<std::uint32_t>(keys.length(1)),
                                  .value_dim = static_cast<std::uint32_t>(values.length(1))};
  widths.key_dim = expansion.content_dim + geometry.key_dim - geometry.value_dim;
  widths.value_dim = expansion.value_dim;
  return attend(asked, q, widths, keywords, &expansion);
}

#define EMBLEMA_ATTENTION_SIGNATURE                                                           \
  "(sequences: Sequence | collections.abc.Iterable[Sequence], layer: int, q: typing.Any, *, " \
  "first: int | collections.abc.Iterable[int] | None = None, "                                \
  "queries: int | collections.abc.Iterable[int] | None = None, "                              \
  "sinks: typing.Any = None, scale: float | None = None, key_scale: float = 1.0, "            \
  "value_scale: float = 1.0, out: typing.Any = None, lse: typing.Any = None"

}  // namespace

void bind_attention(nb::module_& module) {
  module.def("decode_attention", &decode, nb::arg("sequences"), nb::arg("layer"), nb::arg("q"),
             nb::arg("keywords"),
             nb::sig("def decode_attention" EMBLEMA_ATTENTION_SIGNATURE
                     ") -> tuple[typing.Any, typing.Any]"),
             "Attention of a few queries over the committed and reserved rows of one sequence,\n"
             "or of each of a batch, straight from the blocks.\n\n"
             "q: float32 (tokens, query_heads, key_dim) in C order, of numpy or torch on the\n"
             "CPU, rotated at its positions; the queries of the sequences one after the other.\n"
             "queries: how many belong to each; None: as many to each. first: position of each\n"
             "sequence's first query; None: they are its last positions. A query sees\n"
             "positions up to its own, as the layer's window or chunk allows. sinks: float32\n"
             "(query_heads,) logits that join the softmax. scale: None is the layer's.\n"
             "key_scale, value_scale: of fp8 rows, as they were written.\n\n"
             "Gives (out, lse): float32 (tokens, query_heads, value_dim), of latents the\n"
             "latent's width, and (tokens, query_heads), natural logarithms of the sums of\n"
             "exponentials without the sink. Both are written to `out` and `lse` where given,\n"
             "else new and of the kind of q. Nothing is copied. Any thread, without the GIL;\n"
             "calls on one sequence take turns.\n\n"
             "InvalidError: names the argument, what it is and what is allowed.\n"
             "UnsupportedError: rows that no kernel here reads.");
  module.def("prefill_attention", &prefill, nb::arg("sequences"), nb::arg("layer"), nb::arg("q"),
             nb::arg("keywords"),
             nb::sig("def prefill_attention" EMBLEMA_ATTENTION_SIGNATURE
                     ", key_up: typing.Any = None, value_up: typing.Any = None) -> "
                     "tuple[typing.Any, typing.Any]"),
             "The same for many queries. With key_up, float32 (query_heads, content_dim,\n"
             "latent_dim), and value_up, (query_heads, v_dim, latent_dim), latents are\n"
             "expanded to keys and values for each head on the way, never into the cache: q is\n"
             "then (tokens, query_heads, content_dim + rotary_dim), and out (tokens,\n"
             "query_heads, v_dim).");
}

#undef EMBLEMA_ATTENTION_SIGNATURE

}  // namespace emblema::python
