// What `emblema bench` was asked for: its options as typed, read, and found possible.
#pragma once

#include <string>
#include <vector>

#include "emblema/block/hash_bench.h"
#include "emblema/block/manager_bench.h"
#include "emblema/contract/result.h"
#include "emblema/layer/attention_bench.h"

namespace emblema {

// As typed; "" where nothing was.
struct BenchArguments {
  std::vector<std::string> subjects;
  std::string blocks;
  std::string rounds;
  std::string threads = "1";
  std::string isa;
  std::string context;
  std::string prefill;
  std::string caches;
  std::string cases;
  bool json = false;
};

struct BenchPlan {
  bool manager = false;
  bool hash = false;
  bool attention = false;
  std::uint32_t threads = 1;
  bench::ManagerBenchOptions manager_options;
  bench::HashBenchOptions hash_options;
  bench::AttentionBenchOptions attention_options;
};

// Invalid, Unsupported: one line that names the option and what is allowed.
Result<BenchPlan> plan_bench(const BenchArguments& arguments);

}  // namespace emblema
