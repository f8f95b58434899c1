// JSON Schemas written from the field tables, so that they cannot fall behind the readers.
#pragma once

#include <string>

namespace moeplan {

// The schema of a config, moeplan.config/1, as indented JSON with a final newline.
std::string config_schema();

}  // namespace moeplan
