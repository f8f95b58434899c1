// The answer to an indexer request, as JSON.
#pragma once

#include "cli/io/json_writer.hpp"
#include "planner/indexer/layout.hpp"

namespace moeplan {

// Members of the open object "layout": route, route_reason, total_bytes, meta, tensors.
void write_indexer_layout(JsonWriter& json, const IndexerLayout& layout);

}  // namespace moeplan
