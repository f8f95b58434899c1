// JsonDocument: a parsed JSON text that remembers where every value stood, so that any later error can name
// its file, line, column and JSON pointer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

constexpr std::size_t kMaxInputBytes = std::size_t{16} << 20;
constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxValues = 1'000'000;

enum class JsonType : std::uint8_t { null, boolean, integer, number, string, array, object };

// "string", "integer", …; for messages.
std::string_view name_of(JsonType type);

// One value. Indices are into the document's nodes; 0 means none, since the root is nobody's child.
struct JsonNode {
  JsonType type = JsonType::null;
  bool boolean = false;
  std::uint32_t source = 0;                  // which text it came from
  std::uint32_t begin = 0, end = 0;          // its bytes in that text
  std::uint32_t key_begin = 0;               // where its key stands in that text
  std::uint32_t key_at = 0, key_size = 0;    // its key, in the pool
  std::uint32_t text_at = 0, text_size = 0;  // a string's value, in the pool
  std::uint32_t parent = 0, first_child = 0, last_child = 0, next = 0;
  std::uint32_t index = 0;  // place among its siblings
  i64 integer = 0;
  double number = 0;
};

// Where a byte stands. Lines and columns count from 1; a column is a character, not a byte.
struct Place {
  std::string_view source;  // file name, "stdin", "--set"
  i64 line = 0;
  i64 column = 0;
  std::string_view text;  // the whole line
  i64 width = 1;          // characters of the marked value on that line
};

class JsonDocument {
 public:
  // Reads `text`, which must outlive the document, as its only source. Keeps its memory between calls.
  // On error the document is empty; error_place() says where it stopped.
  Status parse(std::string_view text, std::string_view source_name);

  // Sets the value at `pointer` to `text`, read as JSON, or as a string where it is no JSON. Objects on the
  // way are made as needed. `text` and `source_name` must outlive the document.
  Status set(std::string_view pointer, std::string_view text, std::string_view source_name);

  const JsonNode& root() const { return nodes_[0]; }
  const JsonNode* first_child(const JsonNode& node) const { return at(node.first_child); }
  const JsonNode* next(const JsonNode& node) const { return at(node.next); }
  // The member `key` of an object, or null.
  const JsonNode* find(const JsonNode& object, std::string_view key) const;
  // The value at `pointer`, or its nearest ancestor that exists.
  const JsonNode& find_nearest(std::string_view pointer) const;

  std::string_view key(const JsonNode& node) const { return pooled(node.key_at, node.key_size); }
  std::string_view text(const JsonNode& node) const { return pooled(node.text_at, node.text_size); }
  // The value as it stands in its source.
  std::string_view raw(const JsonNode& node) const {
    return sources_[node.source].text.substr(node.begin, node.end - node.begin);
  }
  std::string pointer(const JsonNode& node) const;
  Place place(const JsonNode& node) const;
  Place key_place(const JsonNode& node) const;
  // Where the value at `pointer`, or its nearest ancestor, stands in the first source: what another source
  // set has no place in the file.
  Place place_in_file(std::string_view pointer) const;
  Place error_place() const { return error_place_; }

 private:
  friend class JsonBuilder;
  struct Source {
    std::string_view name;
    std::string_view text;
  };

  const JsonNode* at(std::uint32_t index) const { return index == 0 ? nullptr : &nodes_[index]; }
  std::string_view pooled(std::uint32_t at, std::uint32_t size) const {
    return std::string_view(pool_).substr(at, size);
  }
  std::uint32_t pool(std::string_view text);
  // Parses one source; the value's root becomes node `*root`.
  Status parse_source(std::uint32_t source, std::uint32_t* root);
  std::uint32_t append_child(std::uint32_t parent, std::string_view key, std::uint32_t source);
  Place place_at(std::uint32_t source, std::size_t begin, std::size_t end) const;

  std::vector<Source> sources_;
  std::vector<JsonNode> nodes_;
  std::string pool_;
  Place error_place_;
};

// The tokens of a JSON pointer, unescaped; an Error when it does not start with '/'.
Result<std::vector<std::string>> split_pointer(std::string_view pointer);

// One token, escaped.
std::string escape_pointer_token(std::string_view token);

}  // namespace moeplan
