#include "apps/cli/plan_peers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "emblema/contract/bytes.h"
#include "emblema/plan/printed_number.h"
#include "emblema/report/table.h"
#include "emblema/report/text.h"

namespace emblema {
namespace {

using Break = JsonOutput::Break;

Result<std::optional<PeerEngine>> parse_engine(std::string_view option, std::string_view text) {
  if (text == "emblema") return std::optional<PeerEngine>{};
  for (const PeerEngine engine : {PeerEngine::kVllm, PeerEngine::kSglang}) {
    if (text == (engine == PeerEngine::kVllm ? "vllm" : "sglang")) return std::optional(engine);
  }
  return fail(ErrorCode::Invalid,
              fmt::format("{} is '{}'; allowed: emblema, vllm, sglang", option, text));
}

// The engines' words for a --kv-dtype; "": there is none. 16 bits are left to the engine: "auto" is
// as the model, or its checkpoint, has it.
struct DtypeWords {
  KvDtype dtype;
  std::string_view vllm;
  std::string_view sglang;
};
constexpr std::array kDtypeWords = {
    DtypeWords{KvDtype::kBf16, "auto", "auto"},
    DtypeWords{KvDtype::kFp16, "float16", "auto"},
    DtypeWords{KvDtype::kFp8, "fp8", "fp8_e4m3"},
    DtypeWords{KvDtype::kFp8Rope16, "fp8", "fp8_e4m3"},
    DtypeWords{KvDtype::kFp8DsMla, "fp8_ds_mla", "fp8_e4m3"},
    DtypeWords{KvDtype::kInt8PerTokenHead, "int8_per_token_head", ""},
    DtypeWords{KvDtype::kFp8PerTokenHead, "fp8_per_token_head", ""},
};

Result<std::string> dtype_word(PeerEngine engine, const PlanAnswer& answer) {
  const KvDtype dtype = answer.deployment.kv_dtype;
  const bool is_vllm = engine == PeerEngine::kVllm;
  // vLLM serves DeepSeek-V4 with fp8 caches alone.
  if (is_vllm && dtype == KvDtype::kBf16 && answer.model.family == AttentionFamily::kCompressed) {
    return "fp8";
  }
  std::string allowed;
  for (const DtypeWords& row : kDtypeWords) {
    const std::string_view word = is_vllm ? row.vllm : row.sglang;
    if (word.empty()) continue;
    if (row.dtype == dtype) return std::string(word);
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", to_string(row.dtype));
  }
  return fail(ErrorCode::Invalid,
              fmt::format("--kv-dtype is {}, for which {} has no word; allowed with it: {}, or one "
                          "of its own words as --engine-kv-dtype",
                          to_string(dtype), peer_version(engine), allowed));
}

std::string state_word(StateDtype dtype) {
  if (dtype == StateDtype::kFp32) return "float32";
  return dtype == StateDtype::kBf16 ? "bfloat16" : "float16";
}

std::optional<std::uint64_t> memory_of(const CapacityPlan& plan) {
  std::optional<std::uint64_t> least;
  for (const RankCapacity& rank : plan.ranks) {
    if (rank.pool_bytes && (!least || *rank.pool_bytes < *least)) least = rank.pool_bytes;
  }
  return least;
}

PeerQuestion question_of(const PlanAnswer& answer, const std::string& kv_dtype) {
  const Deployment& deployment = answer.deployment;
  PeerQuestion question;
  question.kv_cache_dtype = kv_dtype;
  if (deployment.state_dtype) question.ssm_dtype = state_word(*deployment.state_dtype);
  if (deployment.hardware) question.gpu_arch = deployment.hardware->arch;
  question.tensor = deployment.parallel.tensor;
  question.pipeline = deployment.parallel.pipeline;
  question.pipeline_layers = deployment.parallel.pipeline_layers;
  question.decode_context = deployment.parallel.decode_context;
  question.interleave = deployment.parallel.interleave;
  question.prefill_context = deployment.parallel.prefill_context;
  question.data_attention = deployment.parallel.data_attention;
  if (deployment.block_tokens > 0) question.block_tokens = deployment.block_tokens;
  question.kv_memory_bytes = memory_of(answer.plan);
  question.max_model_len = deployment.context_tokens;
  if (deployment.speculative_mtp) question.draft_layers = answer.model.num_nextn_predict_layers;
  return question;
}

std::string requests_of(const PeerCapacity& capacity) {
  if (capacity.concurrency.numerator() == 0) return "-";
  return rounded_text(capacity.concurrency, 2);
}

std::string peer_headline(const PeerPlan& peer) {
  if (!peer.capacity) {
    return fmt::format("{}: {} bytes per token; give --pool, or --gpu, for its capacity\n",
                       peer.as_of, exact_in_words(peer.bytes_per_token));
  }
  std::string line = fmt::format("{}: {} tokens", peer.as_of, format_count(peer.capacity->tokens));
  if (peer.capacity->concurrency.numerator() > 0) {
    line += fmt::format("; {} requests of {} tokens at once", requests_of(*peer.capacity),
                        tokens_in_words(peer.max_model_len));
  }
  return line + "\n";
}

std::string peer_groups(const PeerPlan& peer) {
  Table table({{"group"},
               {"layers", Align::kRight},
               {"pages", Align::kRight},
               {"block tokens", Align::kRight},
               {"page bytes", Align::kRight},
               {"block bytes", Align::kRight},
               {"blocks per request", Align::kRight}});
  for (const PeerGroup& group : peer.groups) {
    table.add_row({group.name, format_count(group.layers.size()), format_count(group.pages),
                   format_count(group.block_tokens), format_count(group.page_bytes),
                   format_count(group.block_bytes), format_count(group.blocks_per_request)});
  }
  return table.to_text();
}

std::vector<Cell> own_row(const PlanAnswer& answer) {
  const RankCapacity& rank = answer.plan.ranks.front();
  return {"emblema",
          std::string(to_string(answer.plan.kv_dtype)),
          "-",
          format_count(answer.plan.block_tokens),
          exact_in_words(rank.growing_bytes_per_token),
          rank.pool && !rank.groups.empty() ? format_count(rank.pool->groups.front().blocks) : "-",
          rank.pool ? format_count(rank.tokens) : "-",
          rank.pool ? format_count(rank.concurrency) : "-"};
}

std::vector<Cell> peer_row(const PeerPlan& peer) {
  return {std::string(to_string(peer.engine)),
          peer.kv_cache_dtype,
          peer.backend.empty() ? "-" : peer.backend,
          format_count(peer.page_tokens),
          exact_in_words(peer.bytes_per_token),
          peer.capacity ? format_count(peer.capacity->blocks) : "-",
          peer.capacity ? format_count(peer.capacity->tokens) : "-",
          peer.capacity ? requests_of(*peer.capacity) : "-"};
}

void write_peer_plan(const PeerPlan& peer, JsonOutput* json) {
  json->field("as_of", peer.as_of);
  json->field("backend", peer.backend);
  json->field("kv_cache_dtype", peer.kv_cache_dtype);
  json->field("page_tokens", peer.page_tokens);
  json->field("growing_bytes_per_token", peer.bytes_per_token);
  json->field("max_model_len_tokens", peer.max_model_len);
  json->field("blocks_per_request", peer.blocks_per_request);
  json->key("groups").begin_array();
  for (const PeerGroup& group : peer.groups) {
    json->begin_object(Break::kNone);
    json->field("name", group.name);
    json->field("layers", std::uint64_t{group.layers.size()});
    json->field("block_tokens", group.block_tokens);
    json->field("page_bytes", group.page_bytes);
    json->field("block_bytes", group.block_bytes);
    json->field("blocks_per_request", group.blocks_per_request);
    json->end_object();
  }
  json->end_array();
  if (peer.capacity) {
    json->field("blocks", peer.capacity->blocks);
    json->field("tokens", peer.capacity->tokens);
    json->field("concurrency", peer.capacity->concurrency.approximate());
  }
  const std::pair<std::string_view, const std::vector<std::string>*> lists[] = {
      {"log", &peer.log}, {"warnings", &peer.warnings}, {"notes", &peer.notes}};
  for (const auto& [name, lines] : lists) {
    json->key(name).begin_array();
    for (const std::string& line : *lines) json->value(line);
    json->end_array();
  }
}

}  // namespace

Result<PeersAsked> peers_asked(const PlanArguments& arguments) {
  PeersAsked asked;
  asked.kv_dtype = arguments.engine_kv_dtype;
  std::string_view compare = arguments.compare;
  const auto one = parse_engine("--engine", arguments.engine);
  if (!one) return propagate(one);
  asked.engine = *one;
  for (bool more = !compare.empty(); more;) {
    const std::size_t comma = compare.find(',');
    more = comma != std::string_view::npos;
    const auto other = parse_engine("--compare", compare.substr(0, comma));
    if (!other) return propagate(other);
    const bool is_new = *other && std::find(asked.compare.begin(), asked.compare.end(), **other) ==
                                      asked.compare.end();
    if (is_new) asked.compare.push_back(**other);
    if (more) compare.remove_prefix(comma + 1);
  }
  if (!asked.kv_dtype.empty() && !asked.engine && asked.compare.empty()) {
    return fail(ErrorCode::Invalid,
                fmt::format("--engine-kv-dtype is '{}' without an engine to read it; allowed: with "
                            "--engine or --compare vllm, sglang",
                            asked.kv_dtype));
  }
  return asked;
}

PeerAnswer ask_peer(PeerEngine engine, const PlanAnswer& answer, const std::string& kv_dtype) {
  const auto word = kv_dtype.empty() ? dtype_word(engine, answer) : Result<std::string>(kv_dtype);
  if (!word) return {engine, {}, word.error().message};
  const PeerQuestion question = question_of(answer, *word);
  auto plan = engine == PeerEngine::kVllm ? plan_vllm(answer.model, question)
                                          : plan_sglang(answer.model, question);
  if (!plan) return {engine, {}, plan.error().message};
  return {engine, std::move(*plan), {}};
}

std::string peer_text(const PeerPlan& peer, const PlanAnswer& answer) {
  std::string text = peer_headline(peer);
  text += fmt::format(
      "model {}, kv cache dtype {}, backend {}, pages of {} tokens, {} bytes per "
      "token and rank\n\n",
      clean_text(answer.plan.model), peer.kv_cache_dtype,
      peer.backend.empty() ? "unknown (give --gpu)" : peer.backend, peer.page_tokens,
      exact_in_words(peer.bytes_per_token));
  text += peer_groups(peer);
  if (peer.capacity) {
    text += fmt::format("\n{} blocks in {} of each rank\n", format_count(peer.capacity->blocks),
                        format_bytes(memory_of(answer.plan).value_or(0)));
  }
  if (!peer.log.empty()) text += "\nit would log\n";
  for (const std::string& line : peer.log) text += fmt::format("  {}\n", clean_text(line));
  for (const std::string& line : peer.warnings) {
    text += fmt::format("  warning: {}\n", clean_text(line));
  }
  text += fmt::format("\nEmblema, in the same memory: {}\n", plan_headline(answer));
  for (const std::string& note : peer.notes) text += fmt::format("note: {}\n", clean_text(note));
  return text;
}

Table comparison_table(const std::vector<PeerAnswer>& peers, const PlanAnswer& answer) {
  Table table({{"engine"},
               {"kv dtype"},
               {"backend"},
               {"page tokens", Align::kRight},
               {"bytes per token", Align::kRight},
               {"blocks", Align::kRight},
               {"tokens", Align::kRight},
               {"at once", Align::kRight}});
  table.add_row(own_row(answer));
  for (const PeerAnswer& peer : peers) {
    if (peer.plan) table.add_row(peer_row(*peer.plan));
  }
  return table;
}

std::vector<std::string> comparison_lines(const std::vector<PeerAnswer>& peers) {
  std::vector<std::string> lines;
  for (const PeerAnswer& peer : peers) {
    if (!peer.plan) {
      lines.push_back(clean_text(peer.refusal));
      continue;
    }
    const std::string who(to_string(peer.engine));
    lines.push_back(fmt::format("{}: as of {}", who, peer.plan->as_of));
    for (const std::string& note : peer.plan->notes) {
      lines.push_back(fmt::format("{}: {}", who, clean_text(note)));
    }
  }
  return lines;
}

std::string comparison_text(const std::vector<PeerAnswer>& peers, const PlanAnswer& answer) {
  std::string text = comparison_table(peers, answer).to_text();
  for (const std::string& line : comparison_lines(peers)) text += line + "\n";
  return text;
}

std::vector<std::string> log_lines(const std::vector<PeerAnswer>& peers) {
  std::vector<std::string> lines;
  for (const PeerAnswer& peer : peers) {
    if (!peer.plan) continue;
    for (const std::string& line : peer.plan->log) {
      lines.push_back(fmt::format("{} logs: {}", to_string(peer.engine), clean_text(line)));
    }
  }
  return lines;
}

void write_peers(const std::vector<PeerAnswer>& peers, JsonOutput* json) {
  if (peers.empty()) return;
  json->key("engines").begin_array();
  for (const PeerAnswer& peer : peers) {
    json->begin_object();
    json->field("engine", to_string(peer.engine));
    if (peer.plan) {
      write_peer_plan(*peer.plan, json);
    } else {
      json->field("refusal", peer.refusal);
    }
    json->end_object();
  }
  json->end_array();
}

}  // namespace emblema
