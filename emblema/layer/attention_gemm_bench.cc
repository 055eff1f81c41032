#include "emblema/layer/attention_gemm_bench.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include <dnnl.hpp>
#include <fmt/format.h>

#include "emblema/layer/attention_operands_bench.h"

// As in gemm.cc: oneDNN's OpenMP, whichever the compiler's own is.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int count);
}

namespace emblema::bench {
namespace {

using dnnl::memory;

constexpr std::uint64_t kGatheredRows = 2048;  // at a time
constexpr std::uint64_t kTileTokens = 16;      // queries at a time, of all heads
constexpr std::uint64_t kHeadTokens = 2048;    // likewise in the expanded form, head by head

class Team {
 public:
  explicit Team(std::uint32_t threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(static_cast<int>(threads));
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() { omp_set_num_threads(before_); }

 private:
  int before_;
};

memory::dim dim(std::uint64_t value) {
  return static_cast<memory::dim>(value);
}

// A matrix of operands: fp32 or bf16 numbers.
struct View {
  std::byte* data = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t stride = 0;
};

// The matrix products and the softmax, made once for each shape.
class Products {
 public:
  explicit Products(bool is_bf16)
      : number_(is_bf16 ? memory::data_type::bf16 : memory::data_type::f32) {}

  enum class To { kReplace, kAdd };

  // c (+)= a . b, or a . transpose of b; c in fp32.
  void multiply(const View& a, const View& b, bool transposed, const View& c, To to) {
    if (number_ == memory::data_type::f32) return multiply_fp32(a, b, transposed, c, to);
    multiply_by_primitive(a, b, transposed, c, to, memory::data_type::f32);
  }
  // c = a . transpose of b, c in the type of the operands.
  void multiply_to_operand(const View& a, const View& b, const View& c) {
    if (number_ == memory::data_type::f32) return multiply_fp32(a, b, true, c, To::kReplace);
    multiply_by_primitive(a, b, true, c, To::kReplace, number_);
  }

  // In place, over each row.
  void softmax(float* scores, std::uint64_t rows, std::uint64_t columns) {
    const memory::desc matrix({dim(rows), dim(columns)}, memory::data_type::f32,
                              memory::format_tag::ab);
    auto found = softmaxes_.find({rows, columns});
    if (found == softmaxes_.end()) {
      found = softmaxes_.emplace(std::array{rows, columns}, make_softmax(matrix)).first;
    }
    const memory values(matrix, engine_, scores);
    found->second.execute(stream_, {{DNNL_ARG_SRC, values}, {DNNL_ARG_DST, values}});
    stream_.wait();
  }

  // fp32 -> bf16.
  void round(const float* from, std::uint64_t rows, std::uint64_t columns, std::byte* to) {
    const memory::dims size = {dim(rows), dim(columns)};
    memory source({size, memory::data_type::f32, memory::format_tag::ab}, engine_,
                  const_cast<float*>(from));
    memory rounded({size, memory::data_type::bf16, memory::format_tag::ab}, engine_, to);
    auto found = roundings_.find({rows, columns});
    if (found == roundings_.end()) {
      found = roundings_.emplace(std::array{rows, columns}, dnnl::reorder(source, rounded)).first;
    }
    found->second.execute(stream_, source, rounded);
    stream_.wait();
  }

 private:
  using Key = std::array<std::uint64_t, 9>;

  static void multiply_fp32(const View& a, const View& b, bool transposed, const View& c, To to) {
    const dnnl_status_t status =
        dnnl_sgemm('N', transposed ? 'T' : 'N', dim(c.rows), dim(c.columns), dim(a.columns), 1.0F,
                   floats(a.data), dim(a.stride), floats(b.data), dim(b.stride),
                   to == To::kAdd ? 1.0F : 0.0F, floats(c.data), dim(c.stride));
    if (status != dnnl_success) dnnl::error::wrap_c_api(status, "dnnl_sgemm");
  }

  void multiply_by_primitive(const View& a, const View& b, bool transposed, const View& c, To to,
                             memory::data_type result) {
    const memory::dim inner = dim(a.columns);
    const memory::desc left({dim(a.rows), inner}, number_, {dim(a.stride), 1});
    const memory::desc right(
        {inner, dim(c.columns)}, number_,
        transposed ? memory::dims{1, dim(b.stride)} : memory::dims{dim(b.stride), 1});
    const memory::desc product({dim(c.rows), dim(c.columns)}, result, {dim(c.stride), 1});
    const Key key = {a.rows,     a.columns,      a.stride,
                     c.columns,  b.stride,       c.stride,
                     transposed, to == To::kAdd, static_cast<std::uint64_t>(result)};
    auto found = products_.find(key);
    if (found == products_.end()) {
      found = products_.emplace(key, make_product(left, right, product, to)).first;
    }
    found->second.execute(stream_, {{DNNL_ARG_SRC, memory(left, engine_, a.data)},
                                    {DNNL_ARG_WEIGHTS, memory(right, engine_, b.data)},
                                    {DNNL_ARG_DST, memory(product, engine_, c.data)}});
    stream_.wait();
  }

  // The interface changed with version 3.
  dnnl::matmul make_product(const memory::desc& a, const memory::desc& b, const memory::desc& c,
                            To to) const {
    dnnl::primitive_attr attributes;
    if (to == To::kAdd) {
      dnnl::post_ops after;
      after.append_sum(1.0F);
      attributes.set_post_ops(after);
    }
#if DNNL_VERSION_MAJOR >= 3
    return dnnl::matmul(dnnl::matmul::primitive_desc(engine_, a, b, c, attributes));
#else
    return dnnl::matmul(
        dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, engine_));
#endif
  }
  dnnl::softmax_forward make_softmax(const memory::desc& matrix) const {
    using Forward = dnnl::softmax_forward;
    const auto kind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
    return Forward(Forward::primitive_desc(engine_, kind, dnnl::algorithm::softmax_accurate, matrix,
                                           matrix, 1));
#else
    return Forward(Forward::primitive_desc(Forward::desc(kind, matrix, 1), engine_));
#endif
  }

  memory::data_type number_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, dnnl::matmul> products_;
  std::map<std::array<std::uint64_t, 2>, dnnl::softmax_forward> softmaxes_;
  std::map<std::array<std::uint64_t, 2>, dnnl::reorder> roundings_;
};

bool multiplies_bf16() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto bf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & bf16) == bf16;
}

}  // namespace

class GemmAttention::Work {
 public:
  explicit Work(ThreadPool* threads)
      : threads_(threads),
        is_bf16_(multiplies_bf16()),
        number_bytes_(is_bf16_ ? 2 : 4),
        products_(is_bf16_) {}

  bool is_bf16() const { return is_bf16_; }
  std::uint32_t threads() const { return threads_ == nullptr ? 1 : threads_->threads(); }

  Status set_expansion(const LatentExpansion& expansion) {
    expansion_ = &expansion;
    auto key_up = key_up_.reserve(expansion.key_up.size() * number_bytes_);
    auto value_up = value_up_.reserve(expansion.value_up.size() * number_bytes_);
    if (!key_up) return propagate(key_up);
    if (!value_up) return propagate(value_up);
    store_operands(expansion.key_up, 1.0F, is_bf16_, *key_up);
    store_operands(expansion.value_up, 1.0F, is_bf16_, *value_up);
    return {};
  }

  Status run(const AttentionInputs& inputs, bool is_expanded, std::span<float> out) {
    inputs_ = &inputs;
    is_expanded_ = is_expanded;
    out_ = out.data();
    const AttentionShape& shape = inputs.shape;
    groups_ = is_expanded ? shape.query_heads : shape.kv_heads;
    token_rows_ = shape.query_heads / groups_;
    const std::uint64_t rope = shape.key_dim - shape.value_dim;  // of latents
    key_dim_ = is_expanded ? expansion_->content_dim + rope : shape.key_dim;
    value_dim_ = is_expanded ? expansion_->value_dim : shape.value_dim;
    row_width_ = shape.kind == RowKind::kLatent
                     ? shape.key_dim
                     : std::uint64_t{shape.kv_heads} * (shape.key_dim + shape.value_dim);
    std::fill(out.begin(), out.end(), 0.0F);
    for (const SequenceInputs& sequence : inputs.sequences) {
      const std::uint64_t step = is_expanded ? kHeadTokens : kTileTokens;
      for (std::uint64_t first = 0; first < sequence.queries; first += step) {
        const Tile tile = {&sequence, first, std::min(step, sequence.queries - first)};
        if (Status done = run_tile(tile); !done) return done;
      }
    }
    return {};
  }

 private:
  struct Tile {
    const SequenceInputs* sequence = nullptr;
    std::uint64_t first = 0;  // query token of its sequence
    std::uint64_t tokens = 0;

    std::uint64_t visible(std::uint64_t token) const {  // rows; positions begin at 0
      const std::int64_t position =
          sequence->query_position + static_cast<std::int64_t>(first + token);
      return std::min(sequence->spans.front().rows, static_cast<std::uint64_t>(position) + 1);
    }
  };

  Status run_tile(const Tile& tile) {
    const std::uint64_t rows = tile.tokens * inputs_->shape.query_heads;
    if (Status reserved = reserve(rows, tile.tokens * token_rows_); !reserved) return reserved;
    const std::uint64_t first_row =
        (tile.sequence->first_query + tile.first) * inputs_->shape.query_heads;
    store_operands({inputs_->q + first_row * key_dim_, rows * key_dim_},
                   static_cast<float>(inputs_->shape.scale), is_bf16_, queries_at_);
    lse_.assign(rows, 0.0F);
    sums_.assign(rows, 0.0F);
    const std::uint64_t end = tile.visible(tile.tokens - 1);
    for (std::uint64_t row = 0; row < end; row += kGatheredRows) {
      const std::uint64_t count = std::min(kGatheredRows, end - row);
      gather_operands({&inputs_->rows, &tile.sequence->spans.front(), row, count, row_width_},
                      is_bf16_, threads_, gathered_at_);
      for (std::uint64_t group = 0; group < groups_; ++group) {
        attend(tile, group, first_row, row, count);
      }
    }
    divide(tile, first_row);
    return {};
  }

  Status reserve(std::uint64_t rows, std::uint64_t group_rows) {
    const std::uint64_t scores = group_rows * kGatheredRows;
    struct Need {
      AttentionWorkspace* memory;
      std::uint64_t bytes;
      std::byte** at;
    };
    for (const Need& need :
         {Need{&queries_, rows * key_dim_ * number_bytes_, &queries_at_},
          Need{&gathered_, kGatheredRows * row_width_ * number_bytes_, &gathered_at_},
          Need{&keys_, is_expanded_ ? kGatheredRows * key_dim_ * number_bytes_ : 0, &keys_at_},
          Need{&values_, is_expanded_ ? kGatheredRows * value_dim_ * number_bytes_ : 0,
               &values_at_},
          Need{&scores_, scores * sizeof(float), &scores_at_},
          Need{&weights_, is_bf16_ ? scores * number_bytes_ : 0, &weights_at_}}) {
      auto memory = need.memory->reserve(need.bytes);
      if (!memory) return propagate(memory);
      *need.at = *memory;
    }
    return {};
  }

  // Keys and values of a group's head, as they were gathered or from the up-projections.
  void find_operands(std::uint64_t group, std::uint64_t count, View* keys, View* values) {
    const AttentionShape& shape = inputs_->shape;
    std::byte* at = gathered_at_;
    if (!is_expanded_) {
      const std::uint64_t key = group * shape.key_dim;
      const std::uint64_t value =
          shape.kind == RowKind::kLatent
              ? 0
              : std::uint64_t{shape.kv_heads} * shape.key_dim + group * shape.value_dim;
      *keys = {at + key * number_bytes_, count, key_dim_, row_width_};
      *values = {at + value * number_bytes_, count, value_dim_, row_width_};
      return;
    }
    const std::uint64_t latent = shape.value_dim;
    const std::uint64_t content = expansion_->content_dim;
    const View rows = {at, count, latent, row_width_};
    const View key_up = {weights_of(key_up_, group * content * latent), content, latent, latent};
    const View value_up = {weights_of(value_up_, group * value_dim_ * latent), value_dim_, latent,
                           latent};
    *keys = {keys_at_, count, key_dim_, key_dim_};
    *values = {values_at_, count, value_dim_, value_dim_};
    products_.multiply_to_operand(rows, key_up, {keys_at_, count, content, key_dim_});
    products_.multiply_to_operand(rows, value_up, *values);
    for (std::uint64_t r = 0; r < count; ++r) {
      std::memcpy(keys_at_ + (r * key_dim_ + content) * number_bytes_,
                  at + (r * row_width_ + latent) * number_bytes_,
                  (key_dim_ - content) * number_bytes_);
    }
  }

  std::byte* weights_of(AttentionWorkspace& memory, std::uint64_t number) const {
    return *memory.reserve(0) + number * number_bytes_;
  }

  void attend(const Tile& tile, std::uint64_t group, std::uint64_t first_row, std::uint64_t row,
              std::uint64_t count) {
    View keys;
    View values;
    find_operands(group, count, &keys, &values);
    const std::uint64_t rows = tile.tokens * token_rows_;
    const std::uint64_t stride = is_expanded_ ? groups_ : 1;  // in rows of queries and of out
    const std::uint64_t start = group * token_rows_;
    const View queries = {queries_at_ + start * key_dim_ * number_bytes_, rows, key_dim_,
                          stride * key_dim_};
    float* scores = floats(scores_at_);
    products_.multiply(queries, keys, true, {scores_at_, rows, count, count},
                       Products::To::kReplace);
    firsts_.resize(rows);
    for (std::uint64_t i = 0; i < rows; ++i) {
      float* of_row = scores + i * count;
      const std::uint64_t visible = tile.visible(i / token_rows_);
      if (visible < row + count) {
        const std::uint64_t from = visible > row ? visible - row : 0;
        std::fill(of_row + from, of_row + count, -1e30F);
      }
      firsts_[i] = of_row[0];
    }
    products_.softmax(scores, rows, count);
    float* out = out_ + (first_row + start) * value_dim_;
    for (std::uint64_t i = 0; i < rows; ++i) {
      const bool sees = tile.visible(i / token_rows_) > row;
      join(group * rows + i, sees, row == 0, scores + i * count, count, i,
           out + i * stride * value_dim_);
    }
    if (is_bf16_) products_.round(scores, rows, count, weights_at_);
    products_.multiply({is_bf16_ ? weights_at_ : scores_at_, rows, count, count}, values, false,
                       {bytes(out), rows, value_dim_, stride * value_dim_}, Products::To::kAdd);
  }

  // out is kept relative to the last part's log-sum-exp, which its probabilities give back:
  // lse = z - ln p for any of them.
  void join(std::uint64_t state, bool sees, bool is_first, float* probabilities,
            std::uint64_t count, std::uint64_t i, float* out) {
    if (!sees) {
      std::fill_n(probabilities, count, 0.0F);
      return;
    }
    const float lse = firsts_[i] - std::log(probabilities[0]);
    const float correction = is_first ? 0.0F : std::exp(lse_[state] - lse);
    lse_[state] = lse;
    sums_[state] = sums_[state] * correction + 1.0F;
    scale_row(out, value_dim_, correction);
  }

  void divide(const Tile& tile, std::uint64_t first_row) {
    const std::uint64_t rows = tile.tokens * token_rows_;
    const std::uint64_t stride = is_expanded_ ? groups_ : 1;
    for (std::uint64_t group = 0; group < groups_; ++group) {
      float* out = out_ + (first_row + group * token_rows_) * value_dim_;
      for (std::uint64_t i = 0; i < rows; ++i) {
        scale_row(out + i * stride * value_dim_, value_dim_, 1.0F / sums_[group * rows + i]);
      }
    }
  }

  ThreadPool* threads_;
  bool is_bf16_;
  std::uint64_t number_bytes_;
  Products products_;
  const LatentExpansion* expansion_ = nullptr;
  AttentionWorkspace key_up_;
  AttentionWorkspace value_up_;

  // Of the call.
  const AttentionInputs* inputs_ = nullptr;
  bool is_expanded_ = false;
  float* out_ = nullptr;
  std::uint64_t groups_ = 0;      // heads that have keys and values of their own
  std::uint64_t token_rows_ = 0;  // query rows of a token in one group
  std::uint64_t key_dim_ = 0;
  std::uint64_t value_dim_ = 0;
  std::uint64_t row_width_ = 0;

  AttentionWorkspace queries_, gathered_, keys_, values_, scores_, weights_;
  std::byte* queries_at_ = nullptr;
  std::byte* gathered_at_ = nullptr;
  std::byte* keys_at_ = nullptr;
  std::byte* values_at_ = nullptr;
  std::byte* scores_at_ = nullptr;
  std::byte* weights_at_ = nullptr;
  std::vector<float> firsts_;  // of each row of scores
  std::vector<float> lse_;     // [group][row]
  std::vector<float> sums_;    // likewise
};

GemmAttention::GemmAttention(ThreadPool* threads) : work_(std::make_unique<Work>(threads)) {}
GemmAttention::~GemmAttention() = default;

bool GemmAttention::is_bf16() const {
  return work_->is_bf16();
}

Status GemmAttention::set_expansion(const LatentExpansion& expansion) {
  return work_->set_expansion(expansion);
}

Status GemmAttention::run(const AttentionInputs& inputs, bool is_expanded, std::span<float> out) {
  const Team team(work_->threads());
  try {
    return work_->run(inputs, is_expanded, out);
  } catch (const dnnl::error& refused) {
    return fail(ErrorCode::Unsupported, fmt::format("oneDNN: {}", refused.message));
  }
}

}  // namespace emblema::bench
