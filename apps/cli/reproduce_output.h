// What `emblema plan --reproduce` says: for people, and as JSON (docs/command-line.md has the
// keys).
#pragma once

#include <span>
#include <string>

#include "apps/cli/json_output.h"
#include "emblema/published/reproduce.h"

namespace emblema {

// A first line that counts, then a table per document; a figure that differs is marked DIFFERS,
// and notes stand below their table.
std::string reproduce_text(std::span<const ReproducedFigure> rows);

void write_reproduce(std::span<const ReproducedFigure> rows, JsonOutput* json);

}  // namespace emblema
