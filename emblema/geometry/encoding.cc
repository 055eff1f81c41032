#include "emblema/geometry/encoding.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

template <class Value, std::size_t kCount>
using Names = std::array<std::pair<Value, std::string_view>, kCount>;

// One table per type: printing, reading and the list of what is allowed cannot disagree.
constexpr Names<KvDtype, 10> kKvDtypeNames = {{
    {KvDtype::kBf16, "bf16"},
    {KvDtype::kFp16, "fp16"},
    {KvDtype::kFp32, "fp32"},
    {KvDtype::kFp8, "fp8"},
    {KvDtype::kFp8Rope16, "fp8_rope16"},
    {KvDtype::kFp8DsMla, "fp8_ds_mla"},
    {KvDtype::kInt8PerTokenHead, "int8_per_token_head"},
    {KvDtype::kFp8PerTokenHead, "fp8_per_token_head"},
    {KvDtype::kQ8_0, "q8_0"},
    {KvDtype::kQ4_0, "q4_0"},
}};

constexpr Names<IndexerDtype, 4> kIndexerDtypeNames = {{
    {IndexerDtype::kBf16, "bf16"},
    {IndexerDtype::kFp8, "fp8"},
    {IndexerDtype::kMxfp4, "mxfp4"},
    {IndexerDtype::kMxfp4NoScale, "mxfp4_no_scale"},
}};

constexpr Names<StateDtype, 3> kStateDtypeNames = {{
    {StateDtype::kFp32, "fp32"},
    {StateDtype::kBf16, "bf16"},
    {StateDtype::kFp16, "fp16"},
}};

constexpr Names<Encoding, 9> kEncodingNames = {{
    {Encoding::kFp32, "fp32"},
    {Encoding::kFp16, "fp16"},
    {Encoding::kBf16, "bf16"},
    {Encoding::kFp8E4m3, "fp8_e4m3"},
    {Encoding::kUe8m0, "ue8m0"},
    {Encoding::kE2m1, "e2m1"},
    {Encoding::kInt8, "int8"},
    {Encoding::kInt4, "int4"},
    {Encoding::kPad8, "pad8"},
}};

template <class Value, std::size_t kCount>
std::string_view name_of(Value value, const Names<Value, kCount>& names) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "unknown";
}

template <class Value, std::size_t kCount>
Result<Value> parse_name(std::string_view text, std::string_view what,
                         const Names<Value, kCount>& names) {
  std::string allowed;
  for (const auto& [value, name] : names) {
    if (name == text) return value;
    if (!allowed.empty()) allowed += ", ";
    allowed += name;
  }
  return fail(ErrorCode::Invalid, fmt::format("{} is '{}'; allowed: {}", what, text, allowed));
}

}  // namespace

std::string_view to_string(Encoding encoding) {
  return name_of(encoding, kEncodingNames);
}

std::string_view to_string(KvDtype dtype) {
  return name_of(dtype, kKvDtypeNames);
}

std::string_view to_string(IndexerDtype dtype) {
  return name_of(dtype, kIndexerDtypeNames);
}

std::string_view to_string(StateDtype dtype) {
  return name_of(dtype, kStateDtypeNames);
}

Result<StateDtype> parse_state_dtype(std::string_view text) {
  return parse_name(text, "state dtype", kStateDtypeNames);
}

Result<KvDtype> parse_kv_dtype(std::string_view text) {
  return parse_name(text, "kv dtype", kKvDtypeNames);
}

Result<IndexerDtype> parse_indexer_dtype(std::string_view text) {
  return parse_name(text, "indexer dtype", kIndexerDtypeNames);
}

std::uint32_t bits_per_element(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFp32:
      return 32;
    case Encoding::kFp16:
    case Encoding::kBf16:
      return 16;
    case Encoding::kFp8E4m3:
    case Encoding::kUe8m0:
    case Encoding::kInt8:
    case Encoding::kPad8:
      return 8;
    case Encoding::kE2m1:
    case Encoding::kInt4:
      return 4;
  }
  return 0;
}

IndexerDtype default_indexer_dtype(KvDtype dtype, bool is_compressed_family) {
  switch (dtype) {
    case KvDtype::kBf16:
    case KvDtype::kFp16:
    case KvDtype::kFp32:
      return IndexerDtype::kBf16;
    case KvDtype::kFp8Rope16:
      return is_compressed_family ? IndexerDtype::kMxfp4NoScale : IndexerDtype::kFp8;
    case KvDtype::kFp8:
    case KvDtype::kFp8DsMla:
      return is_compressed_family ? IndexerDtype::kMxfp4 : IndexerDtype::kFp8;
    default:
      return IndexerDtype::kFp8;
  }
}

Result<std::uint64_t> region_bytes(const EntryRegion& region) {
  const std::string what = fmt::format("bits of region '{}'", region.name);
  const auto bits = mul_bytes(region.elements, bits_per_element(region.encoding), what);
  if (!bits) return propagate(bits);
  if (*bits % 8 != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("region '{}' of {} x {} is no whole number of bytes; allowed: an even "
                            "number of elements",
                            region.name, region.elements, to_string(region.encoding)));
  }
  return *bits / 8;
}

}  // namespace emblema
