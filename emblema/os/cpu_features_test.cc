// Against the compiler's own look at the processor, and the kernel's list.
#include "emblema/os/cpu_features.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace emblema {
namespace {

// The first processor's flags in /proc/cpuinfo; empty where there is none.
bool kernel_lists(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == flag) return true;
    }
    return false;
  }
  return false;
}

TEST(CpuFeatures, AreWhatTheKernelLists) {
#if defined(__x86_64__) && defined(__linux__)
  const CpuFeatures& found = cpu_features();
  EXPECT_EQ(found.avx2, kernel_lists("avx2") && kernel_lists("fma") && kernel_lists("f16c"));
  EXPECT_EQ(found.avx512, kernel_lists("avx512f") && kernel_lists("avx512bw") &&
                              kernel_lists("avx512dq") && kernel_lists("avx512vl"));
  EXPECT_EQ(found.avx512_bf16, kernel_lists("avx512_bf16"));
  EXPECT_EQ(found.amx_bf16, kernel_lists("amx_tile") && kernel_lists("amx_bf16"));
#else
  EXPECT_FALSE(cpu_features().avx2);
#endif
}

TEST(CpuFeatures, TilesAreGrantedWhereTheyAreOrRefusedWithAReason) {
  const Status granted = request_amx();
  if (cpu_features().amx_bf16) {
    EXPECT_TRUE(granted) << granted.error().describe();
  } else if (!granted) {
    EXPECT_EQ(granted.error().code, ErrorCode::Unsupported);
    EXPECT_NE(granted.error().describe().find("amx"), std::string::npos);
  }
}

}  // namespace
}  // namespace emblema
