// Fuzz target: operations over models with state outside blocks. The first byte chooses the setup,
// the others every number that RandomHybrid draws; what it finds wrong ends the program.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "emblema/contract/check.h"
#include "emblema/session/random_hybrid_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace emblema::session_testing;
  if (size == 0) return 0;
  constexpr std::uint64_t kStepsMax = 60;  // of one input, so that none takes long
  static const std::vector<HybridSetup> setups = every_hybrid_setup();
  const std::span<const std::uint8_t> bytes(data, size);
  RandomHybrid run(setups[bytes.front() % setups.size()], Draws(bytes.subspan(1)));
  const std::string problem = run.run(kStepsMax);
  if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
  EMBLEMA_CHECK(problem.empty(), "a hybrid sequence holds what was stored");
  return 0;
}
