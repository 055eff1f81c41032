// `emblema plan --engine` and `--compare`: the same question under another engine's rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/plan_output.h"
#include "emblema/peers/peer.h"
#include "emblema/report/table.h"

namespace emblema {

// What the options ask for: of --engine first, then of --compare. Invalid: another name, or
// --engine-kv-dtype without an engine to read it.
struct PeersAsked {
  std::optional<PeerEngine> engine;  // none: Emblema's own plan
  std::vector<PeerEngine> compare;
  std::string kv_dtype;  // the engines' own word; "": what --kv-dtype is in theirs
};
Result<PeersAsked> peers_asked(const PlanArguments& arguments);

// The plan's deployment as the engine would be started with it, in the same memory per GPU.
// `kv_dtype` as in PeersAsked: a --kv-dtype that has no word in the engine is a refusal.
PeerAnswer ask_peer(PeerEngine engine, const PlanAnswer& answer, const std::string& kv_dtype);

// One engine's plan, its log lines and ours beside it. REQUIRES: a plan, not a refusal.
std::string peer_text(const PeerPlan& peer, const PlanAnswer& answer);

// A row for each engine, Emblema's first.
Table comparison_table(const std::vector<PeerAnswer>& peers, const PlanAnswer& answer);

// As of which version, how each differs; or why it refuses.
std::vector<std::string> comparison_lines(const std::vector<PeerAnswer>& peers);

// "vllm logs: GPU KV cache size: ..."
std::vector<std::string> log_lines(const std::vector<PeerAnswer>& peers);

// The table, and the lines below it.
std::string comparison_text(const std::vector<PeerAnswer>& peers, const PlanAnswer& answer);

void write_peers(const std::vector<PeerAnswer>& peers, JsonOutput* json);

}  // namespace emblema
