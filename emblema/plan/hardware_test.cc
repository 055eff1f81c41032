#include "emblema/plan/hardware.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kTera = 1'000'000'000'000;

Gpu gpu_named(std::string_view name) {
  const auto gpu = find_gpu(name);
  EXPECT_TRUE(gpu) << gpu.error().describe();
  return gpu.value_or(Gpu{});
}

TEST(Hardware, FiguresOfTheH100AreTheDenseOnesOfItsWhitePaper) {
  const Gpu h100 = gpu_named("h100");
  EXPECT_EQ(h100.arch, "sm90");
  EXPECT_EQ(h100.bandwidth_bytes_per_second, 3'350 * kTera / 1'000);
  EXPECT_EQ(h100.bf16_flops, 9'894 * kTera / 10);
  EXPECT_EQ(h100.fp8_flops, 19'789 * kTera / 10);
  // nvidia-smi's 81,559 MiB: 85,520,809,984 bytes, as CUDA reports them too.
  EXPECT_EQ(h100.memory_bytes, 85'520'809'984u);
  // 132 SMs of 4 tensor cores, 512 FMA per clock each at 1.83 GHz: the same to its last place.
  EXPECT_EQ(UINT64_C(132) * 4 * 512 * 2 * 1'830 / 100'000, 9'894u);
}

TEST(Hardware, Fp8IsTwiceBf16WhereThereIsOne) {
  for (const Gpu& gpu : gpus()) {
    if (!gpu.fp8_flops) continue;
    const std::uint64_t twice = 2 * gpu.bf16_flops;
    const std::uint64_t apart = std::max(*gpu.fp8_flops, twice) - std::min(*gpu.fp8_flops, twice);
    EXPECT_LE(apart, 9 * kTera) << gpu.name;  // data sheets round to a TFLOP/s
  }
  EXPECT_FALSE(gpu_named("a100").fp8_flops);
}

TEST(Hardware, EveryRowNamesItsSourceAndHoldsTogether) {
  EXPECT_TRUE(std::is_sorted(gpus().begin(), gpus().end(),
                             [](const Gpu& a, const Gpu& b) { return a.name < b.name; }));
  for (const Gpu& gpu : gpus()) {
    EXPECT_GE(gpu.source.size(), 40u) << gpu.name;
    EXPECT_THAT(std::string(gpu.source),
                testing::ContainsRegex("data sheet|white paper|page|yaml|product brief"))
        << gpu.name;
    EXPECT_GT(gpu.memory_bytes, 20 * kGiB) << gpu.name;
    EXPECT_LT(gpu.memory_bytes, 300 * kGiB) << gpu.name;
    // 141 (L40S: GDDR) to 413; nothing since the A100 lies outside, H20 excepted: bandwidth alone.
    const std::uint64_t ridge = gpu.bf16_flops / gpu.bandwidth_bytes_per_second;
    EXPECT_GE(ridge, gpu.name == "h20" ? 37u : 140u) << gpu.name;
    EXPECT_LE(ridge, 425u) << gpu.name;
  }
}

TEST(Hardware, NamesAreFoundHoweverTheyAreWritten) {
  EXPECT_EQ(gpu_named("MI300X").name, "mi300x");
  EXPECT_EQ(gpu_named("H100 PCIe").name, "h100-pcie");
  EXPECT_EQ(gpu_named("a100_40GB").name, "a100-40gb");
}

TEST(Hardware, AnUnknownGpuIsRefusedWithTheListAndTheNearest) {
  const auto gpu = find_gpu("h1000");
  ASSERT_FALSE(gpu);
  EXPECT_EQ(gpu.error().code, ErrorCode::Invalid);
  EXPECT_THAT(gpu.error().message, AllOf(HasSubstr("gpu is 'h1000'"), HasSubstr("mi355x"),
                                         HasSubstr("the nearest is h100")));
  EXPECT_THAT(find_gpu("quadro").error().message, Not(HasSubstr("nearest")));
  EXPECT_FALSE(find_gpu(""));
  EXPECT_FALSE(find_gpu(std::string(100'000, 'h')));
}

TEST(Hardware, FiguresGivenReplaceTheGpus) {
  const auto hardware =
      resolve_hardware({.gpu = "h100", .bandwidth_bytes_per_second = 4 * kTera, .flops = 7});
  ASSERT_TRUE(hardware);
  EXPECT_EQ(hardware->name, "h100");
  EXPECT_EQ(hardware->bandwidth_bytes_per_second, 4 * kTera);
  EXPECT_EQ(hardware->bf16_flops, 7u);
  EXPECT_FALSE(hardware->fp8_flops);
  EXPECT_EQ(hardware->memory_bytes, 85'520'809'984u);
  EXPECT_THAT(hardware->source, HasSubstr("; figures given by the caller"));
}

TEST(Hardware, WithoutAGpuWhatIsNotGivenIsAbsent) {
  const auto custom = resolve_hardware({.memory_bytes = 24 * kGiB});
  ASSERT_TRUE(custom);
  EXPECT_EQ(custom->name, "custom");
  EXPECT_EQ(custom->memory_bytes, 24 * kGiB);
  EXPECT_FALSE(custom->bandwidth_bytes_per_second || custom->bf16_flops);
  EXPECT_EQ(resolve_hardware({})->source, "");
  EXPECT_THAT(resolve_hardware({.flops = 0}).error().message, HasSubstr("flops is 0"));
  EXPECT_FALSE(resolve_hardware({.gpu = "nothing"}));
}

TEST(Hardware, RatesAreReadExactly) {
  EXPECT_EQ(parse_rate("--bandwidth", "3.35TB/s", "B/s"), 3'350'000'000'000u);
  EXPECT_EQ(parse_rate("--bandwidth", "3.35TB", "B/s"), 3'350'000'000'000u);
  EXPECT_EQ(parse_rate("--bandwidth", "864 gb/s", "B/s"), 864'000'000'000u);
  EXPECT_EQ(parse_rate("--bandwidth", "3350000000000", "B/s"), 3'350'000'000'000u);
  EXPECT_EQ(parse_rate("--flops", "989.4T", "FLOP/s"), 989'400'000'000'000u);
  EXPECT_EQ(parse_rate("--flops", "2.25 PFLOP/s", "FLOP/s"), 2'250'000'000'000'000u);
}

TEST(Hardware, RatesThatAreNoneAreRefusedByTheirOption) {
  for (const char* text : {"", "T", "fast", "3.35X", "3.35TiB/s", "-1T", "1.5", "0", "0T", "1e12",
                           "99999P", "3TT", "3T B/s x"}) {
    const auto rate = parse_rate("--bandwidth", text, "B/s");
    ASSERT_FALSE(rate) << text;
    EXPECT_EQ(rate.error().code, ErrorCode::Invalid);
    EXPECT_THAT(rate.error().message, AllOf(HasSubstr("--bandwidth is '" + std::string(text) + "'"),
                                            HasSubstr("3.35TB/s")));
  }
}

}  // namespace
}  // namespace emblema
