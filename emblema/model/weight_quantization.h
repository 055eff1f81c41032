// Reads quantization_config: how the matrices of a checkpoint are stored, and its cache.
#pragma once

#include <optional>

#include "emblema/model/config_fields.h"
#include "emblema/model/weight_facts.h"

namespace emblema {

// Absent where nothing is quantised. A method, or a detail of one, that is not known here is no
// problem of the config: it is named in `uncounted`. Malformed values are problems, recorded in
// `fields`. `fields` is the level that holds quantization_config.
std::optional<QuantizationFacts> read_quantization(const ConfigFields& fields);

// kv_cache_scheme (an object or a word), else kv_cache_quant_algo; those of an inner `quantization`
// object first, as in ModelOpt's own files. Whatever is spelled otherwise is a scheme not known, no
// problem of the config: the cache is sized as the user asks.
std::optional<KvCacheScheme> read_kv_cache_scheme(const ConfigFields& fields);

}  // namespace emblema
