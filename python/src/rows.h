// Where a sequence's new rows are written: chunks of consecutive rows, lent as arrays.
#pragma once

#include "python/src/handles.h"

namespace emblema::python {

// Adds rows() and row() to emblema.Sequence.
void bind_row_calls(nb::class_<SequenceHandle>& type);

}  // namespace emblema::python
