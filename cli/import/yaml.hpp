// YAML documents as trees that remember where every value stood. Bounded: depth, nodes and aliases.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan {

enum class YamlType : std::uint8_t { null, scalar, list, map };

struct YamlNode;
// An aliased value is one node with several parents.
using YamlRef = std::uint32_t;

struct YamlMember {
  std::string key;
  YamlRef value = 0;
};

struct YamlNode {
  YamlType type = YamlType::null;
  std::string text;  // scalar
  bool quoted = false;
  std::vector<YamlRef> items;       // list
  std::vector<YamlMember> members;  // map
  i64 line = 0, column = 0;         // from 1
};

struct YamlText {
  std::vector<YamlNode> nodes;     // nodes[0] is null
  std::vector<YamlRef> documents;  // roots
  std::string error;               // "" when read
  std::string help;
  i64 error_line = 0, error_column = 0;

  const YamlNode& at(YamlRef ref) const { return nodes[ref]; }
  // The member `key` of a map, also by way of its "<<" merges; null when absent or null.
  const YamlNode* find(const YamlNode& map, std::string_view key) const;
};

YamlText read_yaml(std::string_view text);

}  // namespace moeplan
