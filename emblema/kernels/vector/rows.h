// Stored rows -> fp32, scales applied. Every format is read as pieces of one encoding.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs. Everything
// is a template of L, so that no two instruction sets share a function.
#pragma once

namespace emblema::vector_kernels {

template <class L, class Stored>
inline Stored stored_at(const std::byte* from) {
  Stored stored;
  std::memcpy(&stored, from, sizeof stored);  // rows need no alignment
  return stored;
}

// How one encoding is read: a whole vector, or one number. (Not lambdas: g++ compiles those inside
// templates for the baseline machine, whatever the region says.)
template <class L>
struct Bf16Numbers {
  static constexpr std::size_t kBytes = 2;
  static typename L::Vector vector(const std::byte* from) { return L::load_bf16(from); }
  static float one(const std::byte* from) {
    return fp32_from_bf16(stored_at<L, std::uint16_t>(from));
  }
};

template <class L>
struct Fp16Numbers {
  static constexpr std::size_t kBytes = 2;
  static typename L::Vector vector(const std::byte* from) { return L::load_fp16(from); }
  static float one(const std::byte* from) {
    return fp32_from_fp16(stored_at<L, std::uint16_t>(from));
  }
};

template <class L>
struct E4m3Numbers {
  static constexpr std::size_t kBytes = 1;
  static typename L::Vector vector(const std::byte* from) { return L::load_e4m3(from); }
  static float one(const std::byte* from) {
    return fp32_from_e4m3(stored_at<L, std::uint8_t>(from));
  }
};

// `count` numbers; the last few, where a whole vector might read past them, one by one.
template <class L, class Numbers>
inline void load_numbers(const std::byte* from, std::uint32_t count, float* to) {
  std::uint32_t c = 0;
#pragma GCC unroll 4
  for (; c + L::kLanes <= count; c += L::kLanes) {
    L::store(to + c, Numbers::vector(from + c * Numbers::kBytes));
  }
  for (; c < count; ++c) to[c] = Numbers::one(from + c * Numbers::kBytes);
}

template <class L>
inline void load_e4m3(const std::byte* from, std::uint32_t count, float scale, float* to) {
  const auto factor = L::set1(scale);
  std::uint32_t c = 0;
#pragma GCC unroll 4
  for (; c + L::kLanes <= count; c += L::kLanes) {
    L::store(to + c, L::mul(E4m3Numbers<L>::vector(from + c), factor));
  }
  for (; c < count; ++c) to[c] = E4m3Numbers<L>::one(from + c) * scale;
}

template <class L>
inline void load_plain(const std::byte* from, Encoding encoding, std::uint32_t count, float scale,
                       float* to) {
  switch (encoding) {
    case Encoding::kBf16:
      return load_numbers<L, Bf16Numbers<L>>(from, count, to);
    case Encoding::kFp16:
      return load_numbers<L, Fp16Numbers<L>>(from, count, to);
    case Encoding::kFp8E4m3:
      return load_e4m3<L>(from, count, scale, to);
    default:
      std::memcpy(to, from, std::size_t{count} * sizeof(float));
  }
}

// kFp8DsMla, 576 numbers.
template <class L>
inline void load_fp8_ds_mla(const std::byte* from, float* to) {
  constexpr std::uint32_t kCodes = 512;
  constexpr std::uint32_t kPerScale = 128;
  for (std::uint32_t c = 0; c < kCodes; c += kPerScale) {
    const auto scale = stored_at<L, float>(from + kCodes + c / kPerScale * sizeof(float));
    load_e4m3<L>(from + c, kPerScale, scale, to + c);
  }
  load_numbers<L, Bf16Numbers<L>>(from + kCodes + 16, 64, to + kCodes);
}

// A UE8M0 byte: 2^(byte - 127); 255 is NaN.
template <class L>
inline float scale_from_ue8m0(std::byte code) {
  const auto exponent = static_cast<std::uint32_t>(code);
  if (exponent == 0) return 0x1p-127F;
  if (exponent == 255) return __builtin_nanf("");
  const std::uint32_t bits = exponent << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return scale;
}

// kDeepSeekV4, 512 numbers.
template <class L>
inline void load_v4(const std::byte* from, const std::byte* scales, float* to) {
  constexpr std::uint32_t kCodes = 448;
  constexpr std::uint32_t kPerScale = 64;
  for (std::uint32_t c = 0; c < kCodes; c += kPerScale) {
    load_e4m3<L>(from + c, kPerScale, scale_from_ue8m0<L>(scales[c / kPerScale]), to + c);
  }
  load_numbers<L, Bf16Numbers<L>>(from + kCodes, 64, to + kCodes);
}

// Row `row` of `from`: its key, and its value where that is apart.
template <class L>
inline void load_row(const TileWidths& widths, const StoredRows& from, std::uint32_t row,
                     float* key, float* value) {
  const PagedRows& layout = *from.layout;
  const std::byte* bytes = from.rows[row];
  if (layout.format == RowFormat::kFp8DsMla) return load_fp8_ds_mla<L>(bytes, key);
  if (layout.format == RowFormat::kDeepSeekV4) return load_v4<L>(bytes, from.scales[row], key);
  load_plain<L>(bytes + from.key_offset, layout.encoding, widths.key_dim, layout.key_scale, key);
  if (widths.value_in_key) return;
  load_plain<L>(bytes + from.value_offset, layout.encoding, widths.value_dim, layout.value_scale,
                value);
}

}  // namespace emblema::vector_kernels
