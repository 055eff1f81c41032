// Fuzz target: attention calls. The bytes choose shape, storage, spans, masks and an expansion;
// some also spoil one field. What is refused writes nothing; what is accepted gives, in every
// instruction set, what the double reference gives, and the same bits with threads.
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "emblema/contract/check.h"
#include "emblema/kernels/attention_plan_testing.h"
#include "emblema/kernels/prefill_case_testing.h"

namespace emblema {
namespace {

using namespace testing_support;

constexpr float kUntouched = -7.0F;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint64_t kBlocks = 7;
// Few keys, of few channels, may cancel: the bounds of attention.h are for whole vectors.
constexpr double kAllowed = 8.0;

// 0 where the input has ended.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::uint32_t below(std::uint32_t limit) { return byte() % limit; }
  bool one_in(std::uint32_t n) { return below(n) == n - 1; }

 private:
  std::span<const std::uint8_t> bytes_;
};

AttentionShape some_shape(Input& input, const Storage& storage) {
  AttentionShape shape;
  if (storage.format == RowFormat::kFp8DsMla) {
    shape = latent_shape(1 + input.below(3), 512, 64);
  } else if (storage.format == RowFormat::kDeepSeekV4) {
    shape = latent_shape(1 + input.below(3), 512, 0);
  } else if (input.below(2) == 0) {
    shape = latent_shape(1 + input.below(20), 1 + input.below(40), input.below(20));
  } else {
    const std::uint32_t kv_heads = 1 + input.below(3);
    shape = grouped_shape(kv_heads * (1 + input.below(5)), kv_heads, 1 + input.below(40),
                          1 + input.below(40));
  }
  constexpr double kScales[] = {1.0, -1.0, 0.25, 2.0};
  shape.scale *= kScales[input.below(4)];
  constexpr double kCaps[] = {0.0, 0.0, 0.5, 30.0};
  shape.softcap = kCaps[input.below(4)];
  if (input.one_in(3)) shape.window_tokens = 1 + input.below(60);
  if (input.one_in(4)) shape.chunk_tokens = 1 + input.below(60);
  if (input.one_in(3)) add_rope(shape, input.byte());
  return shape;
}

// One call and what it owns.
class FuzzCall {
 public:
  explicit FuzzCall(Input& input) : call_(some_case(input)) {
    AttentionShape& shape = call_.inputs.shape;
    for (std::uint32_t i = input.below(4); i > 0; --i) add_sequence(input);
    if (input.one_in(4)) add_sinks(input);
    if (shape.kind == RowKind::kLatent && input.one_in(3)) {
      const std::uint32_t content = 1 + input.below(24);
      expanded_.emplace(std::move(call_), content, 1 + input.below(24), input.byte());
      expansion_ = &expanded_->expansion;
    }
    if (input.one_in(5)) poison(input);
    if (input.one_in(4)) spoil(input);
    make_results();
  }

  void run() {
    const Status fits = expansion_ == nullptr
                            ? check_attention_inputs(inputs(), out_.size(), lse_.size())
                            : check_prefill_inputs(inputs(), *expansion_, out_.size(), lse_.size());
    Truth truth{std::vector<double>(out_.size()), std::vector<double>(lse_.size())};
    const Status reference = expansion_ == nullptr
                                 ? reference_attention(inputs(), truth.out, truth.lse)
                                 : reference_prefill(inputs(), *expansion_, truth.out, truth.lse);
    EMBLEMA_CHECK(reference.has_value() == fits.has_value(), "the reference checks the same");
    for (const Isa isa : runnable_isas()) run_by(isa, fits, truth);
  }

 private:
  AttentionInputs& inputs() { return expanded_ ? expanded_->call.inputs : call_.inputs; }
  AttentionCase& owner() { return expanded_ ? expanded_->call : call_; }

  static AttentionCase some_case(Input& input) {
    const Storage storages[] = {Encoding::kBf16,    Encoding::kFp32,      Encoding::kFp16,
                                Encoding::kFp8E4m3, RowFormat::kFp8DsMla, RowFormat::kDeepSeekV4};
    const Storage storage = storages[input.below(6)];
    const AttentionShape shape = some_shape(input, storage);
    const std::uint64_t block_rows = 1 + input.below(20);
    return {shape, storage, block_rows, kBlocks, input.byte()};
  }

  // Spans over any blocks, also the same ones; gaps between them, positions before 0 too.
  void add_sequence(Input& input) {
    const AttentionShape& shape = call_.inputs.shape;
    std::int64_t at = static_cast<std::int64_t>(input.below(90)) - 40;
    const std::int64_t begin = at;
    std::vector<Span> spans;
    for (std::uint32_t i = input.below(4); i > 0; --i) {
      at += input.one_in(3) ? input.below(20) : 0;
      SpanPlan plan;
      plan.rows = input.below(70);
      plan.first_row = input.below(5);
      if (shape.rope != nullptr && input.below(2) == 0)
        plan.delta = std::int64_t{input.byte()} * 37;
      plan.position = at - plan.delta;
      const std::uint64_t rows = plan.first_row + plan.rows;
      std::vector<std::uint32_t> table(1 + rows / call_.inputs.rows.block_rows);
      for (std::uint32_t& block : table) block = input.below(kBlocks);
      spans.push_back(call_.make_span(plan, std::move(table)));
      at += static_cast<std::int64_t>(plan.rows);
    }
    const std::int64_t span = at - begin + 8;
    call_.add_sequence(std::move(spans), input.below(7), begin - 4 + input.byte() % span);
  }

  void add_sinks(Input& input) {
    call_.add_sinks();
    const std::uint32_t head = input.below(call_.inputs.shape.query_heads);
    if (input.one_in(3)) call_.sinks[head] = input.below(2) == 0 ? kInfinity : -kInfinity;
  }

  // One number, code or scale becomes NaN, or an infinity. (Not any bytes: a number near the
  // largest overflows where double does not.)
  void poison(Input& input) {
    AttentionCase& call = owner();
    const std::uint64_t block = input.below(kBlocks);
    const std::uint64_t row = input.byte() % call.inputs.rows.block_rows;
    const std::uint64_t index = std::uint64_t{input.byte()} * 3 % call.row_elements();
    constexpr float kValues[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity};
    const float value = kValues[input.below(3)];
    std::byte* bytes = call.row_at(block, row);
    const RowFormat format = call.storage.format;
    if (format == RowFormat::kPlain && call.storage.encoding != Encoding::kFp8E4m3) {
      call.store(block, row, index, value);
    } else if (format == RowFormat::kFp8DsMla && index % 3 == 0) {
      std::memcpy(bytes + 512 + index % 4 * 4, &kValues[0], 4);
    } else if (format == RowFormat::kDeepSeekV4 && index % 3 == 0) {
      call.scales_at(block, row)[index % 7] = std::byte{0xFF};
    } else if (format != RowFormat::kPlain && index >= 448) {
      // The first of the bf16 numbers, behind codes and what scales lie in the row.
      store_number(bytes + (format == RowFormat::kDeepSeekV4 ? 448 : 528), Encoding::kBf16, value);
    } else {
      bytes[index] = std::byte{0x7F};
    }
    is_poisoned_ = true;
  }

  void spoil(Input& input) {
    constexpr std::uint64_t kHuge[] = {0, 1, std::uint64_t{1} << 33, std::uint64_t{1} << 63,
                                       ~std::uint64_t{0}};
    const std::uint64_t value = kHuge[input.below(5)];
    const std::uint32_t field = input.below(20);
    if (field < 10) return spoil_call(field, value);
    std::vector<SequenceInputs>& sequences = owner().sequences;
    if (sequences.empty()) return;
    SequenceInputs& sequence = sequences[input.below(8) % sequences.size()];
    spoiled_.assign(sequence.spans.begin(), sequence.spans.end());
    spoil_sequence(field, value, sequence, input.below(4));
    sequence.spans = spoiled_;
  }

  // Only what a check can know: sizes of memory behind a pointer are the caller's word.
  void spoil_call(std::uint32_t field, std::uint64_t value) {
    AttentionShape& shape = inputs().shape;
    PagedRows& rows = inputs().rows;
    const auto narrow = static_cast<std::uint32_t>(value);
    switch (field) {
      case 0:
        rows.row_bytes = std::min(rows.row_bytes, value);
        break;
      case 1:
        rows.block_bytes = std::min(rows.block_bytes, value);
        break;
      case 2:
        rows.block_count = 1;
        break;
      case 3:
        rows.scales_offset = value;
        break;
      case 4:
        rows.encoding = static_cast<Encoding>(narrow % 16);
        break;
      case 5:
        rows.key_scale = value == 1 ? 1.0F : kInfinity;
        break;
      case 6:
        shape.query_heads = narrow;
        break;
      case 7:
        shape.value_dim = narrow;
        break;
      case 8:
        shape.scale = value == 0 ? std::nan("") : 1e300;
        break;
      default:
        shape.softcap = value == 0 ? -1.0 : 1e-300;
    }
  }
  void spoil_sequence(std::uint32_t field, std::uint64_t value, SequenceInputs& sequence,
                      std::uint32_t which) {
    const auto whole = static_cast<std::int64_t>(value);
    if (field == 10) sequence.queries = value;
    if (field == 11) sequence.first_query = value;
    if (field == 12) sequence.query_position = whole;
    if (spoiled_.empty()) return;
    Span& span = spoiled_[which % spoiled_.size()];
    if (field == 13) span.rows = value;
    if (field == 14) span.first_row = value;
    if (field == 15) span.position = whole;
    if (field == 16) span.delta = whole;
    if (field == 17) span.blocks = {};
    if (field == 18) span.blocks = {&kNoBlock, 1};
    if (field == 19) std::swap(span, spoiled_.front());
  }

  // Sized by what the call says, so that one may also say too much.
  void make_results() {
    const std::uint64_t rows = owner().lse.size();
    const std::uint64_t width = expansion_ != nullptr
                                    ? expansion_->value_dim
                                    : owner().out.size() / std::max<std::uint64_t>(rows, 1);
    out_.assign(rows * width, kUntouched);
    lse_.assign(rows, kUntouched);
  }

  Status attend(const AttentionOptions& options) {
    std::fill(out_.begin(), out_.end(), kUntouched);
    std::fill(lse_.begin(), lse_.end(), kUntouched);
    return prefill_attention(inputs(), out_, lse_, expansion_, options);
  }

  void run_by(Isa isa, const Status& fits, const Truth& truth) {
    AttentionOptions options;
    options.isa = isa;
    const Status got = attend(options);
    EMBLEMA_CHECK(got.has_value() == fits.has_value(), "what is checked is what is refused");
    if (!got) {
      EMBLEMA_CHECK(got.error().message.find('\n') == std::string::npos, "one line");
      for (const float value : out_) EMBLEMA_CHECK(value == kUntouched, "nothing is written");
      return;
    }
    check_near(isa, truth);
    const std::vector<float> out = out_;
    const std::vector<float> lse = lse_;
    static const std::unique_ptr<ThreadPool> pool = ThreadPool::open(3).value();
    static AttentionWorkspace workspace;
    options.threads = pool.get();
    options.workspace = &workspace;
    EMBLEMA_CHECK(attend(options), "accepted again");
    check_bits(isa, out, out_, "out");
    check_bits(isa, lse, lse_, "lse");
  }

  // A NaN's sign and payload are not told.
  void check_bits(Isa isa, const std::vector<float>& alone, const std::vector<float>& threads,
                  const char* which) {
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const auto a = std::bit_cast<std::uint32_t>(alone[i]);
      const auto b = std::bit_cast<std::uint32_t>(threads[i]);
      if (a == b || (std::isnan(alone[i]) && std::isnan(threads[i]))) continue;
      const std::string what = fmt::format("the same bits with threads; {} by {}, {} {}: {:x} {:x}",
                                           describe(), to_string(isa), which, i, a, b);
      EMBLEMA_CHECK(false, what.c_str());
    }
  }

  // Rows of out that a NaN or an infinity reached are left out: what they hold is not told.
  void check_near(Isa isa, const Truth& truth) {
    std::vector<float> out, lse;
    std::vector<double> want_out, want_lse;
    const std::size_t width = lse_.empty() ? 0 : out_.size() / lse_.size();
    for (std::size_t row = 0; row < lse_.size(); ++row) {
      const std::span<const double> want = std::span(truth.out).subspan(row * width, width);
      bool is_finite = !std::isnan(truth.lse[row]) && truth.lse[row] != kInfinity;
      for (const double value : want) is_finite &= std::abs(value) < 1e4;
      if (!is_finite) continue;
      want_out.insert(want_out.end(), want.begin(), want.end());
      want_lse.push_back(truth.lse[row]);
      const auto from = out_.begin() + static_cast<std::ptrdiff_t>(row * width);
      out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(width));
      lse.push_back(lse_[row]);
    }
    const double bound = bound_of(isa, owner().storage) * kAllowed;
    const double out_error = relative_difference(out, want_out);
    const double lse_error = lse_difference(lse, want_lse);
    if (out_error <= bound && lse_error <= bound) return;
    const std::string what = fmt::format("near the reference; {} by {}, out {}, lse {}", describe(),
                                         to_string(isa), out_error, lse_error);
    EMBLEMA_CHECK(false, what.c_str());
  }

  std::string describe() {
    const AttentionShape& s = inputs().shape;
    std::string text = fmt::format(
        "{} heads {}/{} widths {}/{} scale {} softcap {} window {} chunk {} poisoned {} expanded "
        "{} tokens {}",
        owner().storage.name(), s.query_heads, s.kv_heads, s.key_dim, s.value_dim, s.scale,
        s.softcap, s.window_tokens, s.chunk_tokens, is_poisoned_, expansion_ != nullptr,
        inputs().tokens);
    for (const SequenceInputs& sequence : inputs().sequences) {
      text += fmt::format(" [{} queries at {}:", sequence.queries, sequence.query_position);
      for (const Span& span : sequence.spans) {
        text += fmt::format(" {}+{} rows at {} by {}", span.first_row, span.rows, span.position,
                            span.delta);
      }
      text += "]";
    }
    return text;
  }

  static constexpr std::uint32_t kNoBlock = kBlocks;

  AttentionCase call_;
  std::optional<PrefillCase> expanded_;
  const LatentExpansion* expansion_ = nullptr;
  bool is_poisoned_ = false;
  std::vector<Span> spoiled_;
  std::vector<float> out_;
  std::vector<float> lse_;
};

}  // namespace
}  // namespace emblema

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // What the shared test code expects must hold here as well.
  static const bool set = [] { return testing::GTEST_FLAG(break_on_failure) = true; }();
  static_cast<void>(set);
  emblema::Input input({data, size});
  emblema::FuzzCall(input).run();
  return 0;
}
