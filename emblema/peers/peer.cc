#include "emblema/peers/peer.h"

namespace emblema {

std::string_view to_string(PeerEngine engine) {
  return engine == PeerEngine::kVllm ? "vllm" : "sglang";
}

std::string_view peer_version(PeerEngine engine) {
  return engine == PeerEngine::kVllm ? "vLLM 073c510c (2026-08-09)"
                                     : "SGLang v0.5.18 (71de97b2, 2026-08-20)";
}

}  // namespace emblema
