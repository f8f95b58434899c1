// Whether what a report prints fits its published schema.
#pragma once

#include <algorithm>
#include <string>

#include "planner/core/text.hpp"
#include "tests/support.hpp"

namespace moeplan::test {

// Whether the value fits the schema, of the words that our schemas of reports use: the first place that does
// not, "" where all do. Members that the schema does not list do not fit.
inline std::string misfit(const Json& schema, const Json& value, const std::string& place = "") {
  if (schema.contains("const")) return schema["const"] == value ? "" : place;
  if (schema.contains("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    const std::string own = value.is_null()             ? "null"
                            : value.is_boolean()        ? "boolean"
                            : value.is_number_integer() ? "integer"
                            : value.is_string()         ? "string"
                                                        : value.type_name();
    if (std::ranges::find(types, Json(own)) == types.end()) return place + " is " + own;
  }
  for (const Json& key : schema.value("required", Json::array()))
    if (!value.contains(key.get<std::string>()))
      return concat(place, "/", key.get<std::string>(), " is missing");
  if (value.is_object() && schema.contains("properties")) {
    for (const auto& [key, member] : value.items()) {
      if (!schema["properties"].contains(key)) return concat(place, "/", key, " is not listed");
      if (std::string found = misfit(schema["properties"][key], member, concat(place, "/", key));
          !found.empty())
        return found;
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (const Json& item : value)
      if (std::string found = misfit(schema["items"], item, place + "/0"); !found.empty()) return found;
  }
  return "";
}

}  // namespace moeplan::test
