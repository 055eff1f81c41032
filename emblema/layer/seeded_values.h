// Random numbers that are the same bits on every machine and compiler.
//
// Value i of a stream comes from SplitMix64 (Steele, Lea and Flood 2014) at a counter, not from a
// running state: any value can be had alone. Only exact operations and one correctly rounded
// multiplication are used; std::normal_distribution differs between standard libraries.
//
//   h(i)     = mix(key + (i + 1) * 0x9e3779b97f4a7c15), mix = SplitMix64's finaliser
//   uniform  = ((2 * top 24 bits of h) + 1) / 2^24 - 1, in (-1, 1), exact in fp32
//   key      = mix(mix(mix(seed) + layer) + stream)
#pragma once

#include <cstdint>
#include <span>

namespace emblema {

// SplitMix64's finaliser: a bijection of 64 bits.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t value_key(std::uint64_t seed, std::uint64_t layer, std::uint64_t stream) {
  return mix_bits(mix_bits(mix_bits(seed) + layer) + stream);
}

constexpr float uniform_value(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t bits = mix_bits(key + (index + 1) * 0x9e3779b97f4a7c15ULL) >> 40;
  const auto odd = static_cast<std::int64_t>(2 * bits + 1) - (std::int64_t{1} << 24);
  return static_cast<float>(odd) * 0x1p-24F;
}

// out[i] = offset + half_width * uniform(i).
void fill_uniform(std::span<float> out, std::uint64_t key, float half_width, float offset = 0.0F);

}  // namespace emblema
