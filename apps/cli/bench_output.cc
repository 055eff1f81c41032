#include "apps/cli/bench_output.h"

#include <fmt/format.h>

#include "apps/cli/json_output.h"
#include "emblema/report/table.h"

namespace emblema {
namespace {

// Three digits and a unit: "747 us", "1.58 us".
std::string seconds_in_words(double seconds) {
  for (const auto& [unit, size] : {std::pair("s", 1.0), {"ms", 1e-3}, {"us", 1e-6}}) {
    if (seconds >= size) return fmt::format("{:#.3g} {}", seconds / size, unit);
  }
  return fmt::format("{:.0f} ns", seconds * 1e9);
}

std::string rate_in_words(const bench::Figure& figure) {
  if (figure.operations_per_second) {
    return fmt::format("{:.2f} M operations/s", *figure.operations_per_second / 1e6);
  }
  if (figure.bytes_per_second) return fmt::format("{:.2f} GB/s", *figure.bytes_per_second / 1e9);
  return "";
}

std::string bound_in_words(const bench::Figure& figure) {
  if (figure.fraction_of_bound) {
    return fmt::format("{:.2f} of {}", *figure.fraction_of_bound, figure.bound);
  }
  std::string words;
  for (const auto& [name, ratio] : figure.versus) {
    words += fmt::format("{}{:.2f} x {}", words.empty() ? "" : ", ", ratio, name);
  }
  return words;
}

void optional_field(std::string_view name, const std::optional<double>& value, JsonOutput* json) {
  if (value) {
    json->field(name, *value);
  } else {
    json->key(name).null();
  }
}

void add_figure(const bench::Figure& figure, JsonOutput* json) {
  json->begin_object();
  json->field("name", figure.name);
  json->field("isa", figure.isa);
  json->field("threads", figure.threads);
  json->field("seconds", figure.seconds);
  optional_field("flop_per_second", figure.flop_per_second, json);
  optional_field("bytes_per_second", figure.bytes_per_second, json);
  optional_field("operations_per_second", figure.operations_per_second, json);
  optional_field("fraction_of_bound", figure.fraction_of_bound, json);
  json->field("bound", figure.bound);
  json->key("versus").begin_object(JsonOutput::Break::kNone);
  for (const auto& [name, ratio] : figure.versus) json->field(name, ratio);
  json->end_object();
  json->field("blocks", figure.blocks);
  optional_field("lock_held_p50_seconds", figure.lock_held_p50_seconds, json);
  optional_field("lock_held_p99_seconds", figure.lock_held_p99_seconds, json);
  optional_field("lock_held_max_seconds", figure.lock_held_max_seconds, json);
  json->end_object();
}

}  // namespace

std::string bench_text(const bench::Report& report, bool color) {
  Table table({{"figure"},
               {"blocks", Align::kRight},
               {"threads", Align::kRight},
               {"time", Align::kRight},
               {"rate of a thread", Align::kRight},
               {"against"},
               {"lock held p99", Align::kRight},
               {"at most", Align::kRight}});
  const auto held = [](const std::optional<double>& seconds) {
    return seconds ? seconds_in_words(*seconds) : std::string();
  };
  for (const bench::Figure& figure : report.figures) {
    table.add_row({figure.name, figure.blocks ? fmt::format("{}", *figure.blocks) : "",
                   fmt::format("{}", figure.threads), seconds_in_words(figure.seconds),
                   rate_in_words(figure), bound_in_words(figure),
                   held(figure.lock_held_p99_seconds), held(figure.lock_held_max_seconds)});
  }
  std::string text = table.to_text({.color = color});
  if (report.machine.read_bytes_per_second) {
    text += fmt::format("\nThis machine: {}; one thread reads memory at {:.2f} GB/s.\n",
                        report.machine.isa, *report.machine.read_bytes_per_second / 1e9);
  }
  return text;
}

std::string bench_json(const bench::Report& report) {
  JsonOutput json;
  json.begin_object();
  json.field("schema", std::uint64_t{1});
  json.key("machine").begin_object();
  json.field("isa", report.machine.isa);
  json.field("threads", report.machine.threads);
  optional_field("read_bytes_per_second", report.machine.read_bytes_per_second, &json);
  optional_field("fma_flop_per_second", report.machine.fma_flop_per_second, &json);
  optional_field("amx_flop_per_second", report.machine.amx_flop_per_second, &json);
  json.end_object();
  json.key("results").begin_array();
  for (const bench::Figure& figure : report.figures) add_figure(figure, &json);
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace emblema
