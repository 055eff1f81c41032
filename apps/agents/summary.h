// What a person reads of a run: a text for the terminal and one self-contained HTML page.
#pragma once

#include <string>

#include "apps/agents/agents.h"

namespace emblema::agents {

// `color`: ANSI colours, for a terminal.
std::string text_summary(const AgentsReport& report, bool color);

// `command` repeats the run and stands at the page's end.
Result<std::string> html_page(const AgentsReport& report, const std::string& command);

}  // namespace emblema::agents
