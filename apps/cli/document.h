// --document: a number of tokens, or a file whose bytes are the tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emblema/contract/ids.h"
#include "emblema/contract/result.h"

namespace emblema {

struct Document {
  std::uint64_t count = 0;
  std::vector<TokenId> tokens;  // empty: seeded ones are wanted
};

// A number wins over a file of that name ("./512" is the file). Invalid: out of range, an empty or
// longer file. Io: a file that cannot be read, with the system's reason.
Result<Document> read_document(const std::string& text, std::uint64_t tokens_max);

}  // namespace emblema
