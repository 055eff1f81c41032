// Sizes of the state that a recurrent mixer keeps, out of each family's names for them.
#pragma once

#include <cstdint>
#include <string>

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"

namespace emblema {

// The facts of one mixer; every layer of a model that has it has the same. kNone and kKvConv (whose
// sizes are each layer's own heads: read_conv_window) give a mixer without sizes.
// Problems are recorded in `fields`; with one, the result is not to be used.
RecurrentFacts read_recurrent(const ConfigFields& fields, RecurrentMixer mixer,
                              std::uint64_t hidden_size);

// How the config wants that state stored: "float32", "bfloat16", "float16", or "" where it does not
// say. Problems as above.
std::string read_state_dtype(const ConfigFields& fields);

// Baichuan-M1: tokens under the convolution over keys and values; 1 is none.
std::uint64_t read_conv_window(const ConfigFields& fields);

}  // namespace emblema
