// What geometry needs to be true of a ModelConfig before it computes anything. A config that came
// through load_model_config has passed this already; one that a program filled in by hand may not.
#pragma once

#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"

namespace emblema {

// Invalid: names the field, its value and what is allowed. Unsupported: a compress_ratio that is
// none of DeepSeek-V4's.
[[nodiscard]] Status check_model(const ModelConfig& model);

}  // namespace emblema
