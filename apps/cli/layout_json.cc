#include "apps/cli/json_output.h"
#include "apps/cli/layout_output.h"

namespace emblema {
namespace {

using Break = JsonOutput::Break;

std::optional<std::uint64_t> present(std::uint64_t value) {
  return value > 0 ? std::optional<std::uint64_t>(value) : std::nullopt;
}

void write_page(const StreamPage& page, JsonOutput* json) {
  json->begin_object(Break::kNone);
  json->field("layer", page.layer);
  json->field("role", to_string(page.role));
  json->field("offset_bytes", page.offset_bytes);
  json->field("page_bytes", page.page_bytes);
  json->field("rows", page.rows);
  json->field("row_bytes", page.row_bytes);
  json->field("padding_bytes", page.page_bytes - page.rows * page.row_bytes);
  json->key("regions").begin_array(Break::kNone);
  for (const RowRegion& region : page.regions) {
    json->begin_object(Break::kNone);
    json->field("name", region.name);
    json->field("offset_bytes", region.offset_bytes);
    json->field("elements", region.elements);
    json->field("encoding", to_string(region.encoding));
    json->field("segment", region.segment);
    json->field("run_elements", present(region.run_elements));
    json->field("run_stride_bytes", present(region.run_stride_bytes));
    json->end_object();
  }
  json->end_array();
  json->key("segments").begin_array(Break::kNone);
  for (const PageSegment& segment : segments_of(page)) {
    json->begin_object(Break::kNone);
    json->field("offset_bytes", segment.offset_bytes);
    json->field("row_bytes", segment.row_bytes);
    json->end_object();
  }
  json->end_array();
  json->end_object();
}

void write_group(const BlockLayout& group, JsonOutput* json) {
  json->begin_object();
  json->field("name", group.group_name);
  json->field("retention", to_string(group.retention));
  json->field("window_tokens", present(group.window_tokens));
  json->field("block_tokens", group.block_tokens);
  json->field("block_bytes", group.block_bytes);
  json->key("pages").begin_array();
  for (const StreamPage& page : group.pages) write_page(page, json);
  json->end_array();
  json->end_object();
}

}  // namespace

std::string layout_json(const ModelGeometry& geometry, const ModelLayout& layout) {
  JsonOutput json;
  json.begin_object();
  json.field("schema", std::uint64_t{1});
  json.field("model", geometry.model().name);
  json.field("attention", geometry.attention_in_words());
  json.field("kv_dtype", to_string(geometry.options().kv_dtype));
  json.field("profile", to_string(layout.profile));
  json.field("fingerprint", layout.fingerprint.hex());
  json.key("groups").begin_array();
  for (const BlockLayout& group : layout.groups) write_group(group, &json);
  json.end_array();
  json.key("arena").begin_object(Break::kNone);
  json.field("slot_bytes", layout.arena.slot_bytes);
  json.field("state_bytes", layout.arena.state_bytes);
  json.field("window_row_bytes", layout.arena.window_row_bytes);
  json.end_object();
  json.key("notes").begin_array();
  for (const std::string& note : geometry.model().notes) json.value(note);
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace emblema
