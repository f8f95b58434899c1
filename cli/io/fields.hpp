// Field tables: one row a config or request field. The same row reads it, checks it, and publishes it in the
// JSON Schema, so that the three cannot disagree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/io/json_document.hpp"
#include "planner/core/byte_range.hpp"
#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

enum class FieldType {
  integer,
  number,
  boolean,
  text,
  choice,  // one of `choices`
  integer_list,
  choice_list,
  byte_size,    // bytes: an integer, or a text such as "95.01 GiB"
  byte_range,   // the same, kept to the digits it was written with
  millionths,   // a decimal from 0 to 1, kept as parts per million
  object,       // has `fields`
  object_list,  // each has `fields`
  text_map,     // any names; each value a text or an integer
};

// A value on its way from the document to its field. Which member counts follows from the FieldType.
struct FieldValue {
  i64 integer = 0;  // integer, choice, byte_size, millionths
  double number = 0;
  bool boolean = false;
  std::string_view text;
  ByteRange range;
  std::span<const i64> list;
  std::span<const std::pair<std::string, std::string>> map;
};

struct FieldContext;

struct Field {
  std::string_view name;
  std::string_view doc;  // one line: meaning and unit
  FieldType type;
  i64 min = 0, max = 0;  // integers, list items; list lengths: `max_items`
  i64 max_items = 0;
  std::span<const std::string_view> choices = {};
  std::span<const Field> fields = {};
  std::uint32_t required_kinds = 0;  // bits of the request kinds that cannot do without
  bool takes_variables = false;      // "${NAME:-default}" may stand for the number
  ErrorCode unknown_choice = ErrorCode::unknown_value;
  std::uint32_t kinds = ~0u;  // bits of the request kinds that have this field
  void (*store)(void* object, const FieldValue&) = nullptr;
  void* (*enter)(void* object) = nullptr;            // object: the struct to fill; object_list: a new item
  bool (*accepts)(std::string_view text) = nullptr;  // text: whether the field takes it; null: any
  // object_list: reads one item where `fields` alone cannot.
  void (*read_item)(FieldContext& context, const JsonNode& node, void* item) = nullptr;

  constexpr Field required() const {
    Field copy = *this;
    copy.required_kinds = ~0u;
    return copy;
  }
  constexpr Field required_by(std::uint32_t kind_bits) const {
    Field copy = *this;
    copy.required_kinds = kind_bits;
    return copy;
  }
  constexpr Field accepting(bool (*predicate)(std::string_view)) const {
    Field copy = *this;
    copy.accepts = predicate;
    return copy;
  }
  constexpr Field with_variables() const {
    Field copy = *this;
    copy.takes_variables = true;
    return copy;
  }
  constexpr Field unknown_as(ErrorCode code) const {
    Field copy = *this;
    copy.unknown_choice = code;
    return copy;
  }
  constexpr Field with_reader(void (*reader)(FieldContext&, const JsonNode&, void*)) const {
    Field copy = *this;
    copy.read_item = reader;
    return copy;
  }
  // Required of every kind that can meet its table.
  constexpr bool always_required() const { return (kinds & required_kinds) == ~0u; }
  constexpr Field only_for(std::uint32_t kind_bits) const {
    Field copy = *this;
    copy.kinds = kind_bits;
    return copy;
  }
};

namespace field_detail {

template <class Object, class Member>
Object object_of(Member Object::*);
template <class Object, class Member>
Member member_of(Member Object::*);

template <class Member>
struct Bare {
  using type = Member;
};
template <class Member>
struct Bare<std::optional<Member>> {
  using type = Member;
};

template <auto Member>
using ObjectOf = decltype(object_of(Member));
template <auto Member>
using MemberOf = decltype(member_of(Member));
template <auto Member>
using BareMember = typename Bare<MemberOf<Member>>::type;

template <auto Member, class Value>
void assign(void* object, Value&& value) {
  static_cast<ObjectOf<Member>*>(object)->*Member = std::forward<Value>(value);
}

}  // namespace field_detail

// Rows by type. `Member` is a pointer to a member T or std::optional<T>.

template <auto Member>
constexpr Field integer(std::string_view name, i64 min, i64 max, std::string_view doc) {
  return {
      .name = name,
      .doc = doc,
      .type = FieldType::integer,
      .min = min,
      .max = max,
      .store = [](void* object, const FieldValue& v) { field_detail::assign<Member>(object, v.integer); }};
}

// A number of which only a kind is kept: Classify turns it into the member's type.
template <auto Member, auto Classify>
constexpr Field number(std::string_view name, std::string_view doc) {
  return {
      .name = name, .doc = doc, .type = FieldType::number, .store = [](void* object, const FieldValue& v) {
        field_detail::assign<Member>(object, Classify(v.number));
      }};
}

template <auto Member>
constexpr Field boolean(std::string_view name, std::string_view doc) {
  return {
      .name = name, .doc = doc, .type = FieldType::boolean, .store = [](void* object, const FieldValue& v) {
        field_detail::assign<Member>(object, v.boolean);
      }};
}

template <auto Member>
constexpr Field text(std::string_view name, std::string_view doc) {
  return {.name = name, .doc = doc, .type = FieldType::text, .store = [](void* object, const FieldValue& v) {
            field_detail::assign<Member>(object, std::string(v.text));
          }};
}

template <auto Member>
constexpr Field choice(std::string_view name, std::span<const std::string_view> choices,
                       std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .type = FieldType::choice,
          .choices = choices,
          .store = [](void* object, const FieldValue& v) {
            field_detail::assign<Member>(object, static_cast<field_detail::BareMember<Member>>(v.integer));
          }};
}

template <auto Member>
constexpr Field byte_size(std::string_view name, std::string_view doc) {
  Field row = integer<Member>(name, 0, i64{1} << 50, doc);
  row.type = FieldType::byte_size;
  return row;
}

template <auto Member>
constexpr Field byte_range(std::string_view name, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .type = FieldType::byte_range,
          .min = 0,
          .max = i64{1} << 50,
          .store = [](void* object, const FieldValue& v) { field_detail::assign<Member>(object, v.range); }};
}

template <auto Member>
constexpr Field millionths(std::string_view name, std::string_view doc) {
  Field row = integer<Member>(name, 0, 1'000'000, doc);
  row.type = FieldType::millionths;
  return row;
}

template <auto Member>
constexpr Field integer_list(std::string_view name, i64 min, i64 max, i64 max_items, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .type = FieldType::integer_list,
          .min = min,
          .max = max,
          .max_items = max_items,
          .store = [](void* object, const FieldValue& v) {
            field_detail::assign<Member>(object, std::vector<i64>(v.list.begin(), v.list.end()));
          }};
}

template <auto Member>
constexpr Field choice_list(std::string_view name, std::span<const std::string_view> choices,
                            std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .type = FieldType::choice_list,
          .max_items = 64,
          .choices = choices,
          .store = [](void* object, const FieldValue& v) {
            using List = field_detail::BareMember<Member>;
            List list;
            for (i64 item : v.list) list.push_back(static_cast<typename List::value_type>(item));
            field_detail::assign<Member>(object, std::move(list));
          }};
}

template <auto Member>
constexpr Field text_map(std::string_view name, std::string_view doc) {
  return {
      .name = name, .doc = doc, .type = FieldType::text_map, .store = [](void* object, const FieldValue& v) {
        field_detail::assign<Member>(object, field_detail::BareMember<Member>(v.map.begin(), v.map.end()));
      }};
}

// A nested object; an optional member is made present.
template <auto Member>
constexpr Field object(std::string_view name, std::span<const Field> fields, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .type = FieldType::object,
          .fields = fields,
          .enter = [](void* object) -> void* {
            auto& member = static_cast<field_detail::ObjectOf<Member>*>(object)->*Member;
            if constexpr (std::is_same_v<field_detail::MemberOf<Member>, field_detail::BareMember<Member>>)
              return &member;
            else
              return &member.emplace();
          }};
}

template <auto Member>
constexpr Field object_list(std::string_view name, std::span<const Field> fields, std::string_view doc) {
  return {.name = name,
          .doc = doc,
          .type = FieldType::object_list,
          .max_items = 4096,
          .fields = fields,
          .enter = [](void* object) -> void* {
            return &(static_cast<field_detail::ObjectOf<Member>*>(object)->*Member).emplace_back();
          }};
}

// A mistake in a document, and the value it is about.
struct Problem {
  Error error;
  Place place;
};

// How a read goes beyond the table itself.
struct FieldContext {
  const JsonDocument& document;
  std::vector<Problem>& problems;  // at most kMaxProblems are kept
  std::uint32_t kind = ~0u;        // the request kind's bit
  std::string_view kind_name = {};
  // Resolves ${NAME}: its text, none where it is unset, an error where it may not be read. Null where no
  // variables are taken.
  Result<std::optional<std::string>> (*variable)(const void* user, std::string_view name) = nullptr;
  const void* user = nullptr;  // for `variable` and Field::read_item
};
constexpr std::size_t kMaxProblems = 50;

// Stores one value, which is not null, as `field` says.
void read_value(FieldContext& context, const JsonNode& node, const Field& field, void* object);

// Fills `object` from `node` by the rows of `fields`. Null members count as absent. Mistakes go to
// context.problems, and reading goes on behind each.
void read_fields(FieldContext& context, const JsonNode& node, std::span<const Field> fields, void* object);

// Notes that the object `node` lacks `field`, which may be a path.
void add_missing(FieldContext& context, const JsonNode& node, std::string_view field, std::string help);

// Notes a mistake about `node`, with its pointer and place.
void add_problem(FieldContext& context, const JsonNode& node, ErrorCode code, std::string message,
                 std::string help);

}  // namespace moeplan
