#include "emblema/published/reproduce.h"

#include <array>
#include <iterator>
#include <utility>

#include "emblema/published/reproduce_list.h"

namespace emblema {
namespace {

constexpr std::array kDocuments = {
    PublishedDocument{
        kBlockManagerArticle,
        "\"PagedAttention assumed MHA. DeepSeek-V4 says that assumption is broken.\", "
        "Nick Cerutti, 2026-07-23, updated 2026-08-04"},
    PublishedDocument{kMathematics,
                      "\"Multi-Head Latent Attention (MLA): Mathematical Foundations, Low-Rank KV "
                      "Compression, Decoupled RoPE Mechanics, and Matrix Absorption\""},
    PublishedDocument{kChapter,
                      "\"MHA -> MQA -> GQA -> MLA\", a chapter of a book on serving, on vLLM and "
                      "SGLang 7d89325"},
};

}  // namespace

std::string_view to_string(FigureVerdict verdict) {
  switch (verdict) {
    case FigureVerdict::kEqual:
      return "equal";
    case FigureVerdict::kRounded:
      return "rounded";
    case FigureVerdict::kHolds:
      return "holds";
    case FigureVerdict::kDiffers:
      return "differs";
  }
  return "unknown";
}

std::span<const PublishedDocument> published_documents() {
  return kDocuments;
}

Result<std::vector<ReproducedFigure>> reproduce_published_figures() {
  std::vector<ReproducedFigure> rows;
  for (const auto figures_of : {block_manager_figures, mathematics_figures, chapter_figures}) {
    auto figures = figures_of();
    if (!figures) return figures;
    rows.insert(rows.end(), std::make_move_iterator(figures->begin()),
                std::make_move_iterator(figures->end()));
  }
  return rows;
}

}  // namespace emblema
