// The style sheet of the HTML report. A constant; any thread.
#pragma once

#include <string>

namespace emblema {

// Theme, charts and page, ready for one <style> element.
std::string page_css();

}  // namespace emblema
