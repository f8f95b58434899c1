#include "cli/io/fields.hpp"

#include <algorithm>

#include "cli/io/decimal.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// What a field takes, for messages.
std::string expectation(const Field& field) {
  switch (field.type) {
    case FieldType::integer:
      return "an integer";
    case FieldType::number:
      return "a number";
    case FieldType::boolean:
      return "true or false";
    case FieldType::text:
      return "a string";
    case FieldType::choice:
      return concat("one of ", join(field.choices, ", "));
    case FieldType::integer_list:
      return "a list of integers";
    case FieldType::choice_list:
      return concat("a list of ", join(field.choices, ", "));
    case FieldType::byte_size:
    case FieldType::byte_range:
      return "bytes as an integer, or a text such as \"95.01 GiB\"";
    case FieldType::millionths:
      return "a decimal from 0 to 1, such as 0.92";
    case FieldType::object:
      return "an object";
    case FieldType::object_list:
      return "a list of objects";
    case FieldType::text_map:
      return "an object of strings or integers";
  }
  return "";
}

// The value as written, shortened.
std::string shown(const FieldContext& context, const JsonNode& node) {
  if (node.type == JsonType::object || node.type == JsonType::array) return concat("an ", name_of(node.type));
  return shortened(context.document.raw(node), 60);
}

void wrong_type(FieldContext& context, const JsonNode& node, const Field& field) {
  std::string help = concat(field.name, ": ", field.doc);
  if (node.type == JsonType::string && field.type == FieldType::integer) {
    const std::string_view text = context.document.text(node);
    const auto trimmed_begin = text.find_first_not_of(" \t");
    const auto trimmed = trimmed_begin == std::string_view::npos
                             ? std::string_view{}
                             : text.substr(trimmed_begin, text.find_last_not_of(" \t") - trimmed_begin + 1);
    if (scaled_decimal(trimmed, 1) && trimmed.find('.') == std::string_view::npos)
      help = concat("write ", trimmed, " (no quotes)");
  }
  if (field.type == FieldType::text && (node.type == JsonType::integer || node.type == JsonType::number)) {
    const std::string_view raw = context.document.raw(node);
    help = concat("write \"", raw, "\", with quotes; in a shell --set '", context.document.pointer(node),
                  "=\"", raw, "\"'");
  }
  add_problem(context, node, ErrorCode::wrong_type,
              concat(field.name, " must be ", expectation(field), ", got ", shown(context, node)), help);
}

std::string range_of(i64 min, i64 max) {
  if (min == INT64_MIN) return concat("at most ", max);
  return concat(min, "..", max);
}

void out_of_range(FieldContext& context, const JsonNode& node, const Field& field, std::string_view got) {
  add_problem(context, node, ErrorCode::out_of_range,
              concat(field.name, " must be ", range_of(field.min, field.max), ", got ", got),
              concat(field.name, ": ", field.doc));
}

bool check_range(FieldContext& context, const JsonNode& node, const Field& field, i64 number) {
  if (number >= field.min && number <= field.max) return true;
  out_of_range(context, node, field, std::to_string(number));
  return false;
}

// A number that is no 64-bit integer.
void refuse_number(FieldContext& context, const JsonNode& node, const Field& field) {
  const std::string_view raw = context.document.raw(node);
  if (raw.find_first_of(".eE") == std::string_view::npos)
    return out_of_range(context, node, field, concat(shown(context, node), ", which has more than 64 bits"));
  add_problem(context, node, ErrorCode::wrong_type,
              concat(field.name, " must be an integer, got the floating-point number ", shown(context, node)),
              "write the integer in full, without point or exponent");
}

// The text that "${NAME}" or "${NAME:-default}" stands for; none after noting the problem.
std::optional<std::string> read_variable(FieldContext& context, const JsonNode& node, const Field& field,
                                         std::string_view reference) {
  const auto refuse = [&](std::string message, std::string help) {
    add_problem(context, node, ErrorCode::unresolved_variable, std::move(message), std::move(help));
    return std::nullopt;
  };
  if (!field.takes_variables || !context.variable)
    return refuse(concat(field.name, " takes no ${VARIABLE}"), "write the number itself");
  std::string_view name = reference.substr(2, reference.size() - 3);
  std::optional<std::string_view> fallback;
  if (const auto at = name.find(":-"); at != std::string_view::npos) {
    fallback = name.substr(at + 2);
    name = name.substr(0, at);
  }
  if (name.empty()) return refuse("${} names no variable", "write ${NAME}");
  const auto resolved = context.variable(context.user, name);
  if (!resolved) return refuse(resolved.error().message, resolved.error().help);
  // Like a shell's ":-": the fallback also stands in for an empty variable.
  if (*resolved && (!(*resolved)->empty() || !fallback)) return **resolved;
  if (fallback) return std::string(*fallback);
  return refuse(concat(name, " is not set in the environment"),
                concat("set it, or write ${", name, ":-default}"));
}

// An integer literal, or a "${NAME}" that stands for one. False when a problem was noted.
bool read_integer(FieldContext& context, const JsonNode& node, const Field& field, i64* value) {
  if (node.type == JsonType::number) {
    refuse_number(context, node, field);
    return false;
  }
  if (node.type == JsonType::integer) {
    *value = node.integer;
    return check_range(context, node, field, *value);
  }
  const std::string_view text = node.type == JsonType::string ? context.document.text(node) : "";
  if (!text.starts_with("${") || !text.ends_with("}")) {
    wrong_type(context, node, field);
    return false;
  }
  const auto word = read_variable(context, node, field, text);
  if (!word) return false;
  const bool negative = word->starts_with('-');
  const auto parsed = scaled_decimal(std::string_view(*word).substr(negative ? 1 : 0), 1);
  if (!parsed || word->find('.') != std::string::npos) {
    add_problem(context, node, ErrorCode::wrong_type,
                concat(field.name, " must be an integer, ", text, " is \"", shortened(*word, 60), "\""),
                concat(field.name, ": ", field.doc));
    return false;
  }
  *value = negative ? -*parsed : *parsed;
  return check_range(context, node, field, *value);
}

// Index of a string node among the choices, or -1 after noting the problem.
i64 read_choice(FieldContext& context, const JsonNode& node, const Field& field) {
  if (node.type != JsonType::string) {
    wrong_type(context, node, field);
    return -1;
  }
  const std::string_view word = context.document.text(node);
  for (std::size_t i = 0; i < field.choices.size(); ++i) {
    if (field.choices[i] == word) return static_cast<i64>(i);
  }
  const auto near = did_you_mean(word, field.choices);
  add_problem(context, node, field.unknown_choice,
              concat(field.name, " must be ", expectation(field), ", got ", shown(context, node)),
              near ? concat("did you mean \"", *near, "\"?") : concat(field.name, ": ", field.doc));
  return -1;
}

bool read_list(FieldContext& context, const JsonNode& node, const Field& field, std::vector<i64>* list) {
  if (node.type != JsonType::array) {
    wrong_type(context, node, field);
    return false;
  }
  bool fine = true;
  for (const JsonNode* item = context.document.first_child(node); item; item = context.document.next(*item)) {
    if (static_cast<i64>(item->index) == field.max_items) {
      add_problem(context, *item, ErrorCode::too_large,
                  concat(field.name, " holds more than ", field.max_items, " entries"), "shorten the list");
      return false;
    }
    i64 value = 0;
    if (field.type == FieldType::choice_list) {
      value = read_choice(context, *item, field);
      fine = fine && value >= 0;
    } else if (!read_integer(context, *item, field, &value)) {
      fine = false;
    }
    list->push_back(value);
  }
  return fine;
}

bool read_map(FieldContext& context, const JsonNode& node, const Field& field,
              std::vector<std::pair<std::string, std::string>>* map) {
  if (node.type != JsonType::object) {
    wrong_type(context, node, field);
    return false;
  }
  bool fine = true;
  const JsonDocument& document = context.document;
  for (const JsonNode* item = document.first_child(node); item; item = document.next(*item)) {
    if (item->type == JsonType::null) continue;
    if (document.key(*item).empty()) {
      add_problem(context, *item, ErrorCode::invalid_value, concat("a name in ", field.name, " is empty"),
                  "name the variable, or drop it");
      fine = false;
      continue;
    }
    if (item->type != JsonType::string && item->type != JsonType::integer) {
      add_problem(context, *item, ErrorCode::wrong_type,
                  concat(document.key(*item), " must be a string or an integer, got ", shown(context, *item)),
                  "write it as the environment would hold it");
      fine = false;
      continue;
    }
    map->emplace_back(document.key(*item),
                      item->type == JsonType::string ? document.text(*item) : document.raw(*item));
  }
  return fine;
}

bool read_scaled(FieldContext& context, const JsonNode& node, const Field& field, i64* value) {
  std::optional<i64> parsed;
  if (field.type == FieldType::byte_size || field.type == FieldType::byte_range) {
    if (node.type == JsonType::integer) parsed = node.integer;
    if (node.type == JsonType::string) parsed = parse_byte_size(context.document.text(node));
  } else if (node.type == JsonType::integer || node.type == JsonType::number) {
    parsed = scaled_decimal(context.document.raw(node), 1'000'000);
  }
  if (!parsed) {
    wrong_type(context, node, field);
    return false;
  }
  if (*parsed < field.min || *parsed > field.max) {
    add_problem(context, node, ErrorCode::out_of_range,
                concat(field.name, " must be ", expectation(field), ", got ", shown(context, node)),
                concat(field.name, ": ", field.doc));
    return false;
  }
  *value = *parsed;
  return true;
}

// A printed text stands for half of its last digit either way, an integer for itself.
bool read_range(FieldContext& context, const JsonNode& node, const Field& field, ByteRange* range) {
  i64 bytes = 0;
  if (!read_scaled(context, node, field, &bytes)) return false;
  *range = exactly(bytes);
  if (node.type == JsonType::string) {
    const auto printed = parse_printed_bytes(context.document.text(node));
    MOEPLAN_CHECK(printed, "a byte size without its printed range");
    *range = *printed;
  }
  return true;
}

}  // namespace

void read_value(FieldContext& context, const JsonNode& node, const Field& field, void* object) {
  FieldValue value;
  switch (field.type) {
    case FieldType::integer:
      if (!read_integer(context, node, field, &value.integer)) return;
      break;
    case FieldType::byte_size:
    case FieldType::millionths:
      if (!read_scaled(context, node, field, &value.integer)) return;
      break;
    case FieldType::byte_range:
      if (!read_range(context, node, field, &value.range)) return;
      break;
    case FieldType::number:
      if (node.type != JsonType::integer && node.type != JsonType::number)
        return wrong_type(context, node, field);
      value.number = node.type == JsonType::integer ? static_cast<double>(node.integer) : node.number;
      break;
    case FieldType::boolean:
      if (node.type != JsonType::boolean) return wrong_type(context, node, field);
      value.boolean = node.boolean;
      break;
    case FieldType::text:
      if (node.type != JsonType::string) return wrong_type(context, node, field);
      value.text = context.document.text(node);
      if (field.accepts && !field.accepts(value.text))
        return add_problem(context, node, ErrorCode::invalid_value,
                           concat(field.name, " cannot be ", shown(context, node)),
                           concat(field.name, ": ", field.doc));
      break;
    case FieldType::choice:
      value.integer = read_choice(context, node, field);
      if (value.integer < 0) return;
      break;
    case FieldType::integer_list:
    case FieldType::choice_list: {
      std::vector<i64> list;
      if (!read_list(context, node, field, &list)) return;
      value.list = list;
      return field.store(object, value);
    }
    case FieldType::text_map: {
      std::vector<std::pair<std::string, std::string>> map;
      if (!read_map(context, node, field, &map)) return;
      value.map = map;
      return field.store(object, value);
    }
    case FieldType::object:
      if (node.type != JsonType::object) return wrong_type(context, node, field);
      return read_fields(context, node, field.fields, field.enter(object));
    case FieldType::object_list: {
      if (node.type != JsonType::array) return wrong_type(context, node, field);
      const JsonDocument& document = context.document;
      for (const JsonNode* item = document.first_child(node); item; item = document.next(*item)) {
        if (static_cast<i64>(item->index) == field.max_items)
          return add_problem(context, *item, ErrorCode::too_large,
                             concat(field.name, " holds more than ", field.max_items, " entries"),
                             "split it");
        if (item->type != JsonType::object) {
          wrong_type(context, *item, field);
          continue;
        }
        void* entry = field.enter(object);
        if (field.read_item) {
          field.read_item(context, *item, entry);
        } else {
          read_fields(context, *item, field.fields, entry);
        }
      }
      return;
    }
  }
  field.store(object, value);
}

namespace {

void unknown_key(FieldContext& context, const JsonNode& node, std::span<const Field> fields) {
  if (context.problems.size() >= kMaxProblems) return;
  const std::string_view key = context.document.key(node);
  std::vector<std::string_view> names;
  for (const Field& field : fields) {
    if (field.kinds & context.kind) names.push_back(field.name);
  }
  const auto near = did_you_mean(key, names);
  if (context.problems.size() >= kMaxProblems) return;
  context.problems.push_back(
      {Error{ErrorCode::unknown_key, context.document.pointer(node),
             concat("unknown key \"", shortened(key, 60), "\""),
             near ? concat("did you mean \"", *near, "\"?") : concat("known here: ", join(names, ", "))},
       context.document.key_place(node)});
}

}  // namespace

void add_problem(FieldContext& context, const JsonNode& node, ErrorCode code, std::string message,
                 std::string help) {
  if (context.problems.size() >= kMaxProblems) return;
  context.problems.push_back(
      {Error{code, context.document.pointer(node), std::move(message), std::move(help)},
       context.document.place(node)});
}

void add_missing(FieldContext& context, const JsonNode& node, std::string_view field, std::string help) {
  if (context.problems.size() >= kMaxProblems) return;
  context.problems.push_back(
      {Error{ErrorCode::missing_field, concat(context.document.pointer(node), "/", field),
             concat(field, " is missing"), std::move(help)},
       context.document.place(node)});
}

void read_fields(FieldContext& context, const JsonNode& node, std::span<const Field> fields, void* object) {
  MOEPLAN_CHECK(fields.size() <= 64, "a field table longer than its set of seen rows");
  const JsonDocument& document = context.document;
  std::uint64_t seen = 0;
  for (const JsonNode* child = document.first_child(node); child; child = document.next(*child)) {
    const std::string_view key = document.key(*child);
    const Field* field = nullptr;
    for (const Field& row : fields) {
      if (row.name == key) {
        field = &row;
        break;
      }
    }
    if (child->type == JsonType::null && field) continue;
    if (!field) {
      if (!key.starts_with("x-")) unknown_key(context, *child, fields);
      continue;
    }
    if (!(field->kinds & context.kind)) {
      add_problem(context, *child, ErrorCode::field_not_in_kind, concat(context.kind_name, " has no ", key),
                  concat("drop ", key));
      continue;
    }
    seen |= std::uint64_t{1} << (field - fields.data());
    read_value(context, *child, *field, object);
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    if (!(field.required_kinds & field.kinds & context.kind) || (seen >> i & 1)) continue;
    add_missing(context, node, field.name, concat("add \"", field.name, "\": ", field.doc));
  }
}

}  // namespace moeplan
