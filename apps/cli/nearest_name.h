// What someone who mistyped a name may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace emblema {

// The known name with the fewest edits, "" where none is close.
std::string nearest_name(std::string_view typed, std::span<const std::string> known);

}  // namespace emblema
