// The module emblema._core.
#include "python/src/core.h"

namespace emblema::python {

NB_MODULE(_core, module) {
  module.doc() = "The engine behind the package emblema; import emblema, not this.";
  bind_errors(module);
  bind_plan(module);
}

}  // namespace emblema::python
