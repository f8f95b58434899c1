// JSON Schemas of what moeplan reads and writes. The config's follows from the field tables, so that it
// cannot fall behind the reader; a test holds the reports' to what commands print.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/io/fields.hpp"

namespace moeplan {

// Names of the schemas: of inputs, "config" first, then of the kinds of reports, "reports" and "errors".
std::vector<std::string_view> schema_names();

// That schema as indented JSON with a final newline; "" for a name that is none.
std::string schema_named(std::string_view name);

// The schema of an input that is read by these rows.
std::string input_schema(std::string_view name, std::string_view title, std::span<const Field> fields);

// The schema of a config, moeplan.config/1.
std::string config_schema();

}  // namespace moeplan
