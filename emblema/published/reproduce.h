// The arithmetic of three public documents about compressed caches, done again by this library:
// every figure they print, beside the exact value.
//
// Nothing exact is typed in: the models are the presets, their bytes and blocks come from geometry,
// layout and plan, their intensities from the roofline. So the table tests the product as much as
// the documents.
//
// Plain values; any thread. Some milliseconds: presets are parsed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"

namespace emblema {

enum class FigureVerdict : std::uint8_t {
  kEqual,    // to the last digit
  kRounded,  // what is printed is a rounding of the exact value
  kHolds,    // a bound that is kept ("over 93 %"), a statement that is right
  kDiffers,
};
std::string_view to_string(FigureVerdict verdict);  // "equal", "rounded", "holds", "differs"

struct PublishedDocument {
  std::string_view name;   // as rows name it: "block-manager article"
  std::string_view title;  // its own title, who published it and when
};
std::span<const PublishedDocument> published_documents();

struct ReproducedFigure {
  std::string document;  // PublishedDocument::name
  std::string section;
  std::string quantity;    // "MLA in bf16, 128K tokens"
  std::string formula;     // "61 x 576 x 2 x 131,072"
  std::string as_printed;  // "8.68 GB"
  std::string exact;       // "9,210,691,584 B ~ 9.2107 GB"; `~` where a digit was rounded
  FigureVerdict verdict = FigureVerdict::kEqual;
  std::string note;  // why it differs, or how else it can be read; "" for none
};

// In the order of the documents and of their text. Fails only where the library itself does.
Result<std::vector<ReproducedFigure>> reproduce_published_figures();

}  // namespace emblema
