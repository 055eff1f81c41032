// "Multi-Head Latent Attention (MLA): Mathematical Foundations, ..."
#include <array>

#include <fmt/format.h>

#include "emblema/plan/hardware.h"
#include "emblema/plan/roofline.h"
#include "emblema/published/reproduce_list.h"
#include "emblema/published/reproduce_models.h"

namespace emblema {
namespace {

constexpr std::string_view kOpening = "opening";
constexpr std::string_view kWall = "1";
constexpr std::string_view kRope = "4";
constexpr std::string_view kComparison = "7";
constexpr std::string_view kKernel = "8";

constexpr std::uint64_t k128k = 131'072;    // of its section 1
constexpr std::uint64_t k128000 = 128'000;  // of its section 7

void add_wall(const ModelConfig& mha, const Hardware& h100, FigureList* list) {
  list->add({kWall, "H100, FP16", "data sheet", "1,979", "TFLOP/s",
             "with 2:4 sparsity, which attention does not have; dense is half"},
            Rational(h100.bf16_flops.value_or(0)));
  list->add({kWall, "H100, HBM3", "data sheet", "3.35", "TB/s"},
            Rational(h100.bandwidth_bytes_per_second.value_or(0)));
  list->add({kWall, "H100, ridge", "989.4 TFLOP/s / 3.35 TB/s", "590", "FLOP/B",
             "the sparse figure; even that would be 591"},
            ridge_of(h100));
  const auto token = token_bytes(mha);
  list->add({kWall, "MHA of 60 layers, per token", "2 x 60 x 128 x 128 x 2", "3,932,160", "B"},
            token);
  list->add({kWall, "MHA of 60 layers, per token", "2 x 60 x 128 x 128 x 2", "3.93", "MB"}, token);
  list->add({kWall, "MHA of 60 layers, 128k", "3,932,160 x 131,072", "515.4", "GB",
             "128k is 131,072 here, and 128,000 in section 7"},
            sequence_bytes(mha, k128k));
}

// Quarter turns are exact in integers, and R_1 differs from R_3 as R differs from its transpose.
struct Turn {
  int cosine = 1;
  int sine = 0;
};

constexpr Turn quarter_turns(int count) {
  constexpr std::array<Turn, 4> kTurns = {Turn{1, 0}, Turn{0, 1}, Turn{-1, 0}, Turn{0, -1}};
  return kTurns[static_cast<std::size_t>(((count % 4) + 4) % 4)];
}

// The transpose of a rotation by `a` times one by `b`.
constexpr Turn transposed_times(Turn a, Turn b) {
  return {a.cosine * b.cosine + a.sine * b.sine, a.cosine * b.sine - a.sine * b.cosine};
}

constexpr bool is_same(Turn a, Turn b) {
  return a.cosine == b.cosine && a.sine == b.sine;
}

void add_rotation(FigureList* list) {
  constexpr int kQuery = 1;
  constexpr int kKey = 0;
  constexpr Turn kProduct = transposed_times(quarter_turns(kQuery), quarter_turns(kKey));
  const bool is_printed = is_same(kProduct, quarter_turns(kQuery - kKey));
  const bool is_opposite = is_same(kProduct, quarter_turns(kKey - kQuery));
  list->add({kRope, "R_t^T R_j, with quarter turns t = 1, j = 0", "R_1^T R_0", "R_(t-j)",
             "its section 5 has the sign right"},
            Result<std::string>(is_opposite && !is_printed ? "R_(j-t)" : "R_(t-j)"),
            is_printed ? FigureVerdict::kHolds : FigureVerdict::kDiffers);
}

void add_shapes(const ModelConfig& v2, const ModelConfig& v3, FigureList* list) {
  list->add({kComparison, "layers of DeepSeek-V2", "its config.json", "60"},
            Rational(v2.num_hidden_layers));
  list->add(
      {kComparison, "layers of DeepSeek-V3", "its config.json", "60", "", "60 are DeepSeek-V2's"},
      Rational(v3.num_hidden_layers));
  list->add({kComparison, "n_h", "config.json of both", "128"}, Rational(v3.num_attention_heads));
  list->add({kComparison, "d_h", "config.json of both", "128"}, Rational(v3.qk_nope_head_dim));
  list->add({kComparison, "d_v", "config.json of both", "128"}, Rational(v3.v_head_dim));
  list->add({kComparison, "d_c", "config.json of both", "512"}, Rational(v3.kv_lora_rank));
  list->add({kComparison, "d_R", "config.json of both", "64"}, Rational(v3.qk_rope_head_dim));
}

// A line of its table, and of the bars below it.
struct CacheLine {
  std::string_view name;
  std::uint32_t kv_heads;  // 0: the latent
  std::string_view formula;
  std::string_view elements;
  std::string_view bytes;
  std::string_view kilobytes;
  std::string_view total;
  std::string_view bar;  // "" where there is none
};

constexpr std::array kLines = {
    CacheLine{"MHA", 128, "2 x 128 x 128", "32,768", "65,536", "64.0", "503.32", "503.3"},
    CacheLine{"GQA, 8 groups", 8, "2 x 8 x 128", "2,048", "4,096", "4.0", "31.46", "31.5"},
    CacheLine{"GQA, 4 groups", 4, "2 x 4 x 128", "1,024", "2,048", "2.0", "15.73", "15.7"},
    CacheLine{"MQA", 1, "2 x 1 x 128", "256", "512", "0.5", "3.93", ""},
    CacheLine{"MLA", 0, "512 + 64", "576", "1,152", "1.125", "8.85", "8.85"},
};

// The table is of 60 layers: DeepSeek-V2's.
void add_line(const ModelConfig& v2, const CacheLine& line, FigureList* list) {
  const ModelConfig model = line.kv_heads == 0 ? v2 : as_grouped(v2, line.kv_heads);
  const auto bytes = layer_bytes(model);
  const std::string name(line.name);
  const std::string elements = name + ", elements per token and layer";
  const std::string per_layer = name + ", bytes per layer";
  const std::string total = name + ", 128k";
  const std::string bar = name + ", 128k, as a bar";
  const std::string twice = fmt::format("({}) x 2", line.formula);
  const std::string times = fmt::format("60 x {} x 128,000", line.bytes);
  list->add({kComparison, elements, line.formula, line.elements}, ratio(bytes, Rational(2)));
  list->add({kComparison, per_layer, twice, line.bytes, "B"}, bytes);
  list->add(
      {kComparison, per_layer, twice, line.kilobytes, "KB", "the GB of the same table are decimal"},
      bytes);
  list->add({kComparison, total, times, line.total, "GB"}, sequence_bytes(model, k128000));
  if (line.bar.empty()) return;
  list->add({kComparison, bar, times, line.bar, "GB"}, sequence_bytes(model, k128000));
}

void add_savings(const ModelConfig& v2, FigureList* list) {
  const auto mla = layer_bytes(v2);
  const ModelConfig mha = as_grouped(v2, v2.num_attention_heads);
  list->add({kComparison, "MHA, 128k as section 1 counts it", "60 x 65,536 x 131,072", "503.32",
             "GB", "section 1 prints 515.4 GB: 128k is 131,072 there, and 128,000 here"},
            sequence_bytes(mha, k128k));
  list->add({kComparison, "saved against MHA", "1 - 576 / 32,768", "98.24", "%"},
            saved_part(mla, layer_bytes(mha)));
  list->add({kComparison, "saved against 8 groups", "1 - 576 / 2,048", "71.88", "%"},
            saved_part(mla, layer_bytes(as_grouped(v2, 8))));
}

Result<std::string> place_in_words(const ModelConfig& v3, const Hardware& h100) {
  const auto intensity = decode_intensity(v3);
  if (!intensity) return propagate(intensity);
  const auto ridge = ridge_of(h100);
  if (!ridge) return propagate(ridge);
  return fmt::format("{} FLOP/B of {}: {}", rounded_text(*intensity, 2), rounded_text(*ridge, 2),
                     to_string(at_most(*ridge, *intensity) ? Bound::kCompute : Bound::kBandwidth));
}

void add_kernel(const ModelConfig& v2, const ModelConfig& v3, const Hardware& h100,
                FigureList* list) {
  const auto row = layer_bytes(v3);
  const auto mha = layer_bytes(as_grouped(v2, v2.num_attention_heads));
  list->add({kKernel, "elements read per token", "512 + 64", "576"}, ratio(row, Rational(2)));
  const bool aligned = row && row->is_whole() && row->numerator() % 16 == 0;
  list->add({kKernel, "rows allow 128-bit loads", "1,152 / 16 is whole", "128-bit aligned"},
            Result<std::string>(aligned ? "1,152 B = 72 x 16 B" : "not aligned"),
            aligned ? FigureVerdict::kHolds : FigureVerdict::kDiffers);
  list->add({kKernel, "saved (against MHA, as in section 7)", "1 - 576 / 32,768", "93", "%",
             "93.3 % is DeepSeek-V2's figure against DeepSeek 67B, with 6-bit elements",
             "approximately 93 %"},
            saved_part(layer_bytes(v2), mha));
  list->add({kKernel, "larger batches than MHA", "32,768 / 576", "5", "x", "", "more than 5x",
             ClaimKind::kLeast},
            ratio(mha, layer_bytes(v2)));
  const auto place = place_in_words(v3, h100);
  const bool is_right = place && place->ends_with(to_string(Bound::kCompute));
  list->add({kKernel, "larger batches make decode attention", "2 x 128 x 1,088 / 1,152 against 295",
             "compute-bound", "a batch grows FLOP and bytes alike: attention's intensity stays"},
            place, is_right ? FigureVerdict::kHolds : FigureVerdict::kDiffers);
}

}  // namespace

Result<std::vector<ReproducedFigure>> mathematics_figures() {
  const auto v2 = load_model_config("deepseek-v2");
  if (!v2) return propagate(v2);
  const auto v3 = load_model_config("deepseek-v3");
  if (!v3) return propagate(v3);
  const auto h100 = resolve_hardware({.gpu = "h100"});
  if (!h100) return propagate(h100);
  const ModelConfig mha = as_grouped(*v2, v2->num_attention_heads);
  FigureList list(kMathematics);
  list.add({kOpening, "saved against MHA", "1 - 576 / 32,768", "93", "%", "", "over 93 %",
            ClaimKind::kLeast},
           saved_part(layer_bytes(*v2), layer_bytes(mha)));
  add_wall(mha, *h100, &list);
  add_rotation(&list);
  add_shapes(*v2, *v3, &list);
  for (const CacheLine& line : kLines) add_line(*v2, line, &list);
  add_savings(*v2, &list);
  add_kernel(*v2, *v3, *h100, &list);
  return std::move(list).take();
}

}  // namespace emblema
