// Values as engines print and take them: Python literals, JSON, and the "name=value" lists of config dumps.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moeplan {

struct LiteralMember;

struct Literal {
  enum class Type { none, boolean, number, text, list, map };
  Type type = Type::none;
  bool boolean = false;
  std::string text;  // a text's value, or a number as written
  std::vector<Literal> items;
  std::vector<LiteralMember> members;
  std::size_t begin = 0, end = 0;  // bytes of the parsed text

  // The member of that name, or null.
  const Literal* find(std::string_view name) const;
};

struct LiteralMember {
  std::string name;
  Literal value;
};

struct ParsedLiteral {
  Literal value;        // what was read, also ahead of a mistake
  std::size_t end = 0;  // first byte behind it
  std::string error;    // "" when it was read to its end
  std::size_t error_at = 0;
  bool ended_early = false;  // the text ended inside the value
};

// A value at the start of `text`: Python or JSON. A <...> reprs and calls of unknown shape read as none;
// Name(key=value) reads as a map.
ParsedLiteral parse_literal(std::string_view text);

// "name=value, name=value" up to the end of the text or a line of another record.
ParsedLiteral parse_assignments(std::string_view text);

}  // namespace moeplan
