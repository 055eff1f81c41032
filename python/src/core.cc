// The module emblema._core.
#include "python/src/core.h"

namespace emblema::python {

NB_MODULE(_core, module) {
  module.doc() = "The engine behind the package emblema; import emblema, not this.";
  bind_errors(module);
  bind_plan(module);
  bind_model(module);
  bind_geometry(module);
  bind_stats(module);
  bind_why(module);
  bind_rows(module);
  bind_sequence(module);
  bind_segment(module);
  bind_engine(module);
  bind_step(module);
  bind_attention(module);
}

}  // namespace emblema::python
