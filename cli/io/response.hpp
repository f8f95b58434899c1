// The response of one planning request, as JSON.
#pragma once

#include "cli/io/json_writer.hpp"
#include "planner/core/result.hpp"
#include "planner/plan.hpp"

namespace moeplan {

// {"id", "layout": {...}}
void write_response(JsonWriter& json, const PlanRequest& request, const PlanLayout& layout);

// {"id", "line", "error": {"code", "message", "pointer"?, "help"?}}; the id is null where it could not be
// read.
void write_error_response(JsonWriter& json, std::string_view id, i64 line, const Error& error);

}  // namespace moeplan
