#include "apps/cli/run_output.h"

#include "apps/cli/json_output.h"

namespace emblema {
namespace {

void add_way(const agents::WayReport& way, JsonOutput* json) {
  json->begin_object();
  json->field("name", way.name);
  json->field("logical_bytes", way.logical_bytes);
  json->field("physical_bytes", way.physical_bytes);
  json->field("document_copies", way.holdings.document_copies);
  json->key("hit_tokens").begin_object(JsonOutput::Break::kNone);
  json->field("prefix", way.prefix_hit_tokens);
  json->field("segment", way.segment_hit_tokens);
  json->end_object();
  json->key("shared_blocks").begin_object(JsonOutput::Break::kNone);
  json->field("content", way.content_shared_blocks);
  json->end_object();
  json->field("collisions", way.collisions);
  json->field("copied_blocks", way.copied_blocks);
  json->key("rows").begin_object(JsonOutput::Break::kNone);
  json->field("preamble", way.holdings.preamble_rows);
  json->field("document", way.holdings.document_rows);
  json->field("question", way.holdings.question_rows);
  json->field("answer", way.holdings.answer_rows);
  json->end_object();
  json->field("computed_tokens", way.computed_tokens);
  json->field("served_tokens", way.served_tokens);
  json->field("seconds", way.seconds);
  json->field("tokens_per_second", way.tokens_per_second);
  json->field("max_relative_difference", way.max_relative_difference);
  json->field("compared_vectors", way.compared_vectors);
  json->field("max_reference_difference", way.max_reference_difference);
  json->end_object();
}

}  // namespace

std::string run_json(const agents::AgentsReport& report) {
  JsonOutput json;
  json.begin_object();
  json.field("schema", std::uint64_t{1});
  json.field("ok", report.ok);
  json.field("model", report.model);
  json.field("attention", report.attention);
  json.field("kv_dtype", report.kv_dtype);
  json.field("isa", to_string(report.isa));
  json.field("threads", std::uint64_t{report.threads});
  json.field("layers", report.layers);
  json.field("agents", report.agents);
  json.field("document_tokens", report.document_tokens);
  json.field("total_tokens", report.total_tokens);
  json.field("block_tokens", report.block_tokens);
  json.field("bytes_per_token", report.per_token.bytes);
  json.field("ratio_to_mha", report.ratio_to_mha);
  json.field("ratio_to_gqa8", report.ratio_to_gqa8);
  json.key("ways").begin_array();
  for (const agents::WayReport& way : report.ways) add_way(way, &json);
  json.end_array();
  json.key("checks").begin_array();
  for (const agents::Check& check : report.checks) {
    json.begin_object(JsonOutput::Break::kNone);
    json.field("name", check.name);
    json.field("passed", check.passed);
    json.field("measured", check.measured);
    json.field("allowed", check.allowed);
    json.end_object();
  }
  json.end_array();
  json.key("notes").begin_array();
  for (const std::string& note : report.notes) json.value(note);
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace emblema
