// Parts of a capacity plan as people read them, on a terminal and on a page alike.
#pragma once

#include <cstdint>
#include <string>

#include "emblema/plan/capacity_plan.h"
#include "emblema/report/table.h"

namespace emblema {

// "8.578 GiB (9,210,691,584 bytes)"
std::string size_in_words(std::uint64_t bytes);

// "61 x 73,728", "21 x 18,432 + 20 x 576"
std::string pages_in_words(const GroupCapacity& group);

// "latent 1,152", "compressed 1,024 / 4 tokens"
std::string stream_in_words(const StreamCapacity& stream);

// What the streams of a layer keep, or whose rows it reads.
std::string streams_in_words(const LayerCapacity& layer);

// Group, block tokens, pages, block bytes, and blocks where there is a pool. REQUIRES: a group.
Table groups_table(const RankCapacity& rank);

}  // namespace emblema
