// "PagedAttention assumed MHA. DeepSeek-V4 says that assumption is broken."
#include <algorithm>
#include <array>

#include "emblema/published/reproduce_list.h"
#include "emblema/published/reproduce_models.h"

namespace emblema {
namespace {

constexpr std::string_view kAccounting = "accounting";
constexpr std::string_view kBlockSize = "block size";
constexpr std::string_view kV4 = "DeepSeek-V4";
constexpr std::string_view kTakeaways = "takeaways";

constexpr GeometryOptions kFp8Latents{.kv_dtype = KvDtype::kFp8Rope16};
constexpr GeometryOptions kFp8Rows{.kv_dtype = KvDtype::kFp8DsMla};

void add_shape(const ModelConfig& v3, FigureList* list) {
  list->add({kAccounting, "layers of DeepSeek-V3", "its config.json", "61"},
            Rational(v3.num_hidden_layers));
  list->add({kAccounting, "heads", "its config.json", "128"}, Rational(v3.num_attention_heads));
  list->add({kAccounting, "head dim", "its config.json", "128"}, Rational(v3.v_head_dim));
  list->add({kAccounting, "latent dim", "its config.json", "512"}, Rational(v3.kv_lora_rank));
  list->add({kAccounting, "RoPE dim", "its config.json", "64"}, Rational(v3.qk_rope_head_dim));
}

// A line of its table of cache sizes.
struct SizeLine {
  std::uint64_t tokens = 0;
  std::string_view context;
  std::string_view mha;
  std::string_view mha_unit;
  std::string_view mla;
  std::string_view fp8;
  std::string_view ratio;
};

constexpr std::array kSizes = {
    SizeLine{8'192, "8K", "30.5", "GB", "0.54", "0.30", "56.6"},
    SizeLine{32'768, "32K", "122.0", "GB", "2.17", "1.21", "56.2"},
    SizeLine{131'072, "128K", "488.0", "GB", "8.68", "4.84", "56.2"},
    SizeLine{524'288, "512K", "1.95", "TB", "34.72", "19.4", "56.2"},
    SizeLine{1'048'576, "1M", "3.90", "TB", "69.44", "38.7", "56.2"},
};

void add_sizes(const ModelConfig& v3, const SizeLine& line, FigureList* list) {
  const auto named = [&line](std::string_view what) {
    return std::string(what) + ", " + std::string(line.context);
  };
  const auto mha = sequence_bytes(as_grouped(v3, v3.num_attention_heads), line.tokens);
  const auto mla = sequence_bytes(v3, line.tokens);
  const std::string of_mha = named("MHA in bf16");
  const std::string of_mla = named("MLA in bf16");
  const std::string of_fp8 = named("MLA in fp8");
  const std::string of_ratio = named("MHA / MLA");
  list->add({kAccounting, of_mha, "61 x 2 x 128 x 128 x 2 x tokens", line.mha, line.mha_unit}, mha);
  list->add({kAccounting, of_mla, "61 x (512 + 64) x 2 x tokens", line.mla, "GB"}, mla);
  list->also("is", mla, "GiB");
  list->add({kAccounting, of_fp8, "61 x (512 + 64 x 2) x tokens", line.fp8, "GB"},
            sequence_bytes(v3, line.tokens, kFp8Latents));
  list->also("is", sequence_bytes(v3, line.tokens, kFp8Latents), "GiB");
  list->also("with the scales of 656-byte rows", sequence_bytes(v3, line.tokens, kFp8Rows), "GiB");
  list->add({kAccounting, of_ratio, "(2 x 128 x 128) / (512 + 64)", line.ratio, "x",
             "both grow linearly: one ratio at every length"},
            ratio(mha, mla));
}

void add_prose(const ModelConfig& v3, FigureList* list) {
  const auto mha = token_bytes(as_grouped(v3, v3.num_attention_heads));
  const auto times = ratio(mha, token_bytes(v3));
  list->add({kAccounting, "MHA / MLA, title and text", "32,768 / 576", "56", "x",
             "cut off; it rounds to 57", "56x"},
            times);
  list->add({kBlockSize, "a 16-token block of MHA / of MLA", "32,768 / 576", "56", "x",
             "cut off; it rounds to 57", "one fifty-sixth"},
            times);
}

Result<Rational> block_tokens(const ModelConfig& model) {
  const auto geometry = ModelGeometry::from(model, kFp8Latents);
  if (!geometry) return propagate(geometry);
  return Rational(geometry->groups().front().block_tokens);
}

// What one layer of a kind keeps per token: its growing streams, or its window's row.
struct LayerKind {
  Rational growing;
  std::uint64_t stride_tokens = 1;
  std::uint64_t window_entry_bytes = 0;
  std::uint64_t window_tokens = 0;
};

Result<LayerKind> layer_kind(const ModelConfig& v4, std::string_view kind) {
  const auto geometry = ModelGeometry::from(v4, kFp8Latents);
  if (!geometry) return propagate(geometry);
  const auto layers = geometry->layers();
  const auto layer = std::find_if(layers.begin(), layers.end(),
                                  [kind](const LayerGeometry& l) { return l.kind == kind; });
  if (layer == layers.end()) {
    return fail(ErrorCode::NotFound, "DeepSeek-V4-Pro has no layer of kind " + std::string(kind));
  }
  LayerKind found;
  for (const Stream& stream : layer->streams) {
    const auto sum = add(found.growing, stream.growing_bytes_per_token(), "bytes of a layer");
    if (!sum) return propagate(sum);
    found.growing = *sum;
    if (stream.role == StreamRole::kCompressed) found.stride_tokens = stream.stride_tokens;
    if (stream.role != StreamRole::kWindow) continue;
    found.window_entry_bytes = stream.entry_bytes;
    found.window_tokens = stream.retention_tokens;
  }
  return found;
}

Status add_v4(const ModelConfig& v4, FigureList* list) {
  const auto csa = layer_kind(v4, "csa");
  if (!csa) return propagate(csa);
  const auto hca = layer_kind(v4, "hca");
  if (!hca) return propagate(hca);
  list->add({kV4, "k1, tokens per CSA entry", "its config.json", "4"},
            Rational(csa->stride_tokens));
  list->add({kV4, "k2, tokens per HCA entry", "its config.json", "128"},
            Rational(hca->stride_tokens));
  list->add({kV4, "head dim", "its config.json", "512"}, Rational(v4.layers.front().head_dim));
  list->add({kV4, "RoPE dim", "its config.json", "64"}, Rational(v4.qk_rope_head_dim));
  list->add({kV4, "CSA per token and layer", "(64 x 2 + 448 + 128 / 2) / 4", "160", "B",
             "payload; with scales an entry takes 584 B, an index key 68 or 132 B", "",
             ClaimKind::kExact},
            csa->growing);
  list->add({kV4, "HCA per token and layer", "(64 x 2 + 448) / 128", "4", "B",
             "integer division dropped the half", "", ClaimKind::kExact},
            hca->growing);
  list->add({kV4, "SWA per token in the window", "64 x 2 + 448", "576", "B",
             "payload; with scales a row takes 584 B", "", ClaimKind::kExact},
            Rational(csa->window_entry_bytes));
  list->add({kV4, "window", "its config.json", "128"}, Rational(csa->window_tokens));
  return {};
}

void add_takeaways(const ModelConfig& v3, FigureList* list) {
  const std::uint64_t tokens = 131'072;
  const auto mha = sequence_bytes(as_grouped(v3, v3.num_attention_heads), tokens);
  const auto mla = sequence_bytes(v3, tokens);
  list->add({kTakeaways, "MHA in bf16, 128K", "61 x 65,536 x 131,072", "488", "GB"}, mha);
  list->add({kTakeaways, "MLA in bf16, 128K", "61 x 1,152 x 131,072", "8.68", "GB"}, mla);
  list->also("is", mla, "GiB");
}

}  // namespace

Result<std::vector<ReproducedFigure>> block_manager_figures() {
  const auto v3 = load_model_config("deepseek-v3");
  if (!v3) return propagate(v3);
  const auto v4 = load_model_config("deepseek-v4-pro");
  if (!v4) return propagate(v4);
  FigureList list(kBlockManagerArticle);
  add_shape(*v3, &list);
  for (const SizeLine& line : kSizes) add_sizes(*v3, line, &list);
  add_prose(*v3, &list);
  list.add({kBlockSize, "tokens per block for MLA", "the page that FlashMLA reads", "64"},
           block_tokens(*v3));
  list.add({kBlockSize, "tokens per block for DeepSeek-V4", "lcm(4, 128)", "128"},
           block_tokens(*v4));
  if (const Status ok = add_v4(*v4, &list); !ok) return propagate(ok);
  add_takeaways(*v3, &list);
  return std::move(list).take();
}

}  // namespace emblema
