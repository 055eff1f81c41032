#include "emblema/layout/profile.h"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace emblema {
namespace {

// One table: printing, reading and the list of what is allowed cannot disagree.
constexpr std::array<std::pair<Profile, std::string_view>, 7> kNames = {{
    {Profile::kNative, "native"},
    {Profile::kFlashMla, "flashmla"},
    {Profile::kFp8DsMla, "fp8_ds_mla"},
    {Profile::kV4, "v4"},
    {Profile::kV4Sglang, "v4_sglang"},
    {Profile::kGgml, "ggml"},
    {Profile::kTokenHead, "token_head"},
}};

constexpr std::uint64_t kV4BlockTokens = 256;  // of vLLM and SGLang

}  // namespace

std::string_view to_string(Profile profile) {
  for (const auto& [known, name] : kNames) {
    if (known == profile) return name;
  }
  return "unknown";
}

std::string profile_names(std::string_view separator) {
  std::string text;
  for (const auto& [profile, name] : kNames) {
    if (!text.empty()) text += separator;
    text += name;
  }
  return text;
}

Result<Profile> parse_profile(std::string_view text) {
  for (const auto& [profile, name] : kNames) {
    if (name == text) return profile;
  }
  return fail(ErrorCode::Invalid,
              fmt::format("profile is '{}'; allowed: {}", text, profile_names(", ")));
}

ProfileDefaults defaults_of(Profile profile) {
  switch (profile) {
    case Profile::kFp8DsMla:
      return {KvDtype::kFp8DsMla, 0};
    case Profile::kV4:
    case Profile::kV4Sglang:
      return {KvDtype::kFp8DsMla, kV4BlockTokens};
    case Profile::kGgml:
      return {KvDtype::kQ8_0, 0};
    case Profile::kTokenHead:
      return {KvDtype::kInt8PerTokenHead, 0};
    case Profile::kNative:
    case Profile::kFlashMla:
      break;
  }
  return {};
}

}  // namespace emblema
