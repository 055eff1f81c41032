#include "apps/cli/bench_output.h"

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "apps/cli/json_output.h"
#include "emblema/contract/bytes.h"
#include "emblema/report/table.h"

namespace emblema {
namespace {

// "747", "15.8", "1.58". fmt's own three digits are "747.0" in some versions.
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

// Three digits and a unit: "747 us", "1.58 us".
std::string seconds_in_words(double seconds) {
  for (const auto& [unit, size] : {std::pair("s", 1.0), {"ms", 1e-3}, {"us", 1e-6}}) {
    if (seconds >= size) return fmt::format("{} {}", three_digits(seconds / size), unit);
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

std::string ratios_in_words(const bench::Figure& figure) {
  std::string words;
  for (const auto& [name, ratio] : figure.versus) {
    words += fmt::format("{}{:.2f} x {}", words.empty() ? "" : ", ", ratio, name);
  }
  return words;
}

std::string bound_in_words(const bench::Figure& figure) {
  if (figure.fraction_of_bound) {
    return fmt::format("{:.2f} of {}", *figure.fraction_of_bound, figure.bound);
  }
  return ratios_in_words(figure);
}

// "1.07 TFLOP/s", "38.4 GB/s".
std::string large_rate(const std::optional<double>& rate, std::string_view unit) {
  if (!rate) return "";
  for (const auto& [prefix, size] : {std::pair("T", 1e12), {"G", 1e9}, {"M", 1e6}, {"k", 1e3}}) {
    if (*rate >= size) return fmt::format("{} {}{}", three_digits(*rate / size), prefix, unit);
  }
  return fmt::format("{:.0f} {}", *rate, unit);
}

std::string tokens_per_second_in_words(const bench::Figure& figure) {
  if (!figure.tokens_per_second) return "";
  return fmt::format("{:.0f} {}, {:.0f} {}", *figure.tokens_per_second, figure.form,
                     figure.other_form_tokens_per_second.value_or(0),
                     figure.form == "absorbed" ? "expanded" : "absorbed");
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
  json->field("context_tokens", figure.context_tokens);
  json->field("query_tokens", figure.query_tokens);
  optional_field("cold_bytes", figure.cold_bytes, json);
  optional_field("read_bytes_per_second", figure.read_bytes_per_second, json);
  json->field("form", figure.form);
  optional_field("tokens_per_second", figure.tokens_per_second, json);
  optional_field("other_form_tokens_per_second", figure.other_form_tokens_per_second, json);
  json->end_object();
}

// Bookkeeping and hashing.
std::string block_table(const std::vector<bench::Figure>& figures, bool color) {
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
  for (const bench::Figure& figure : figures) {
    table.add_row({figure.name, figure.blocks ? fmt::format("{}", *figure.blocks) : "",
                   fmt::format("{}", figure.threads), seconds_in_words(figure.seconds),
                   rate_in_words(figure), bound_in_words(figure),
                   held(figure.lock_held_p99_seconds), held(figure.lock_held_max_seconds)});
  }
  return table.to_text({.color = color});
}

std::string attention_table(const std::vector<bench::Figure>& figures, bool color) {
  Table table({{"figure"},
               {"context", Align::kRight},
               {"queries", Align::kRight},
               {"isa"},
               {"threads", Align::kRight},
               {"time", Align::kRight},
               {"computes", Align::kRight},
               {"rows", Align::kRight},
               {"of the bound", Align::kRight},
               {"faster than"},
               {"tokens/s"}});
  for (const bench::Figure& figure : figures) {
    table.add_row({figure.name, tokens_in_words(figure.context_tokens.value_or(0)),
                   format_count(figure.query_tokens.value_or(0)), figure.isa,
                   fmt::format("{}", figure.threads), seconds_in_words(figure.seconds),
                   large_rate(figure.flop_per_second, "FLOP/s"),
                   large_rate(figure.bytes_per_second, "B/s"),
                   fmt::format("{:.2f} {}", figure.fraction_of_bound.value_or(0), figure.bound),
                   ratios_in_words(figure), tokens_per_second_in_words(figure)});
  }
  return table.to_text({.color = color});
}

std::string machine_in_words(const bench::Machine& machine) {
  std::string words = std::string(machine.isa);
  const bool is_one = machine.threads == 1 || !machine.fma_flop_per_second;  // hash: always one
  if (machine.read_bytes_per_second) {
    words +=
        fmt::format("; {} memory at {:.2f} GB/s",
                    is_one ? "one thread reads" : fmt::format("{} threads read", machine.threads),
                    *machine.read_bytes_per_second / 1e9);
  }
  if (machine.fma_flop_per_second) {
    words += fmt::format("; fp32 {}", large_rate(machine.fma_flop_per_second, "FLOP/s"));
  }
  if (machine.amx_flop_per_second) {
    words += fmt::format("; bf16 tiles {}", large_rate(machine.amx_flop_per_second, "FLOP/s"));
  }
  return words;
}

}  // namespace

std::string bench_text(const bench::Report& report, bool color) {
  std::vector<bench::Figure> attention = report.figures;
  std::erase_if(attention, [](const bench::Figure& figure) { return !figure.context_tokens; });
  std::vector<bench::Figure> blocks = report.figures;
  std::erase_if(blocks, [](const bench::Figure& figure) { return !!figure.context_tokens; });
  std::string text;
  if (!blocks.empty()) text += block_table(blocks, color);
  if (!attention.empty()) {
    text += fmt::format("{}{}", text.empty() ? "" : "\n", attention_table(attention, color));
  }
  if (report.machine.read_bytes_per_second) {
    text += fmt::format("\nThis machine: {}.\n", machine_in_words(report.machine));
  }
  for (const std::string& note : report.notes) text += note + "\n";
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
  json.key("notes").begin_array();
  for (const std::string& note : report.notes) json.value(note);
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace emblema
