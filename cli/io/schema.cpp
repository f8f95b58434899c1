#include "cli/io/schema.hpp"

#include "cli/io/config.hpp"
#include "cli/io/json_writer.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

void write_object(JsonWriter& json, std::span<const Field> fields);

void write_bounds(JsonWriter& json, const Field& field) {
  if (field.min != INT64_MIN) json.member("minimum", field.min);
  if (field.max != INT64_MAX) json.member("maximum", field.max);
}

void write_integer(JsonWriter& json, const Field& field) {
  json.member("type", "integer");
  write_bounds(json, field);
}

// The members of one field's schema, its description aside.
void write_type(JsonWriter& json, const Field& field) {
  switch (field.type) {
    case FieldType::integer:
      if (!field.takes_variables) return write_integer(json, field);
      json.key("anyOf").begin_array();
      json.begin_object();
      write_integer(json, field);
      json.end_object();
      json.begin_object().member("type", "string").member("pattern", "^\\$\\{[^}]+\\}$").end_object();
      json.end_array();
      return;
    case FieldType::number:
      json.member("type", "number");
      return;
    case FieldType::boolean:
      json.member("type", "boolean");
      return;
    case FieldType::text:
      json.member("type", "string");
      return;
    case FieldType::choice:
      json.key("enum").inline_array(field.choices);
      return;
    case FieldType::integer_list:
      json.member("type", "array").member("maxItems", field.max_items);
      json.key("items").begin_object();
      write_integer(json, field);
      json.end_object();
      return;
    case FieldType::choice_list:
      json.member("type", "array").member("maxItems", field.max_items);
      json.key("items").begin_object();
      json.key("enum").inline_array(field.choices);
      json.end_object();
      return;
    case FieldType::byte_size:
    case FieldType::byte_range:
      json.key("anyOf").begin_array();
      json.begin_object();
      write_integer(json, field);
      json.end_object();
      json.begin_object().member("type", "string");
      json.member("pattern", "^[0-9]+(\\.[0-9]{1,9})? *(TiB|GiB|MiB|KiB|B)$").end_object();
      json.end_array();
      return;
    case FieldType::millionths:
      json.member("type", "number").member("minimum", i64{0}).member("maximum", i64{1});
      return;
    case FieldType::object:
      write_object(json, field.fields);
      return;
    case FieldType::object_list:
      json.member("type", "array").member("maxItems", field.max_items);
      json.key("items").begin_object();
      write_object(json, field.fields);
      json.end_object();
      return;
    case FieldType::text_map:
      json.member("type", "object");
      json.key("additionalProperties").begin_object();
      json.key("type").inline_array(std::initializer_list<std::string_view>{"string", "integer", "null"});
      json.end_object();
      return;
  }
}

void write_object(JsonWriter& json, std::span<const Field> fields) {
  json.member("type", "object");
  json.key("properties").begin_object();
  for (const Field& field : fields) {
    json.key(field.name).begin_object();
    json.member("description", field.doc);
    // An optional field may be null, which is the same as leaving it out.
    if (field.always_required()) {
      write_type(json, field);
    } else {
      json.key("anyOf").begin_array();
      json.begin_object();
      write_type(json, field);
      json.end_object();
      json.begin_object().member("type", "null").end_object();
      json.end_array();
    }
    json.end_object();
  }
  json.end_object();
  std::vector<std::string_view> required;
  for (const Field& field : fields) {
    // A field of some kinds only cannot be required of all.
    if (field.always_required()) required.push_back(field.name);
  }
  json.key("required").inline_array(required);
  json.key("patternProperties").begin_object();
  json.key("^x-").begin_object().end_object();
  json.end_object();
  json.member("additionalProperties", false);
}

}  // namespace

std::string input_schema(std::string_view name, std::string_view title, std::span<const Field> fields) {
  std::string out;
  JsonWriter json(out, JsonWriter::Style::indented);
  json.begin_object();
  json.member("$schema", "https://json-schema.org/draft/2020-12/schema");
  json.member("$id", concat("moeplan.", name, ".v1.schema.json"));
  json.member("title", concat("moeplan ", title, ", moeplan.", name, "/1"));
  write_object(json, fields);
  json.end_object();
  out += '\n';
  return out;
}

std::string config_schema() { return input_schema("config", "deployment config", config_fields()); }

}  // namespace moeplan
