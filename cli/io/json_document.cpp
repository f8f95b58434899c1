#include "cli/io/json_document.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// An input iterator that tells its owner how far the parser has read: the parser itself reports no positions.
struct TrackedChar {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** read_to;

  reference operator*() const { return *at; }
  TrackedChar& operator++() {
    *read_to = ++at;
    return *this;
  }
  TrackedChar operator++(int) {
    TrackedChar before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const TrackedChar& a, const TrackedChar& b) { return a.at == b.at; }
};

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// The library's message without its "[json.exception…] parse error at line 1, column 5: " head.
std::string bare_message(std::string_view what) {
  const auto column = what.find("column ");
  const auto colon = column == std::string_view::npos ? what.find("] ") : what.find(": ", column);
  return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
}

}  // namespace

// Receives the parser's events and builds nodes from them.
class JsonBuilder {
 public:
  JsonBuilder(JsonDocument& document, std::uint32_t source)
      : document_(document), source_(source), text_(document.sources_[source].text) {
    // A byte order mark is skipped by the parser without an event.
    token_end_ = text_.starts_with("\xEF\xBB\xBF") ? 3 : 0;
    read_to_ = text_.data();
  }

  bool run() {
    const char* end = text_.data() + text_.size();
    const bool parsed =
        nlohmann::json::sax_parse(TrackedChar{text_.data(), &read_to_}, TrackedChar{end, &read_to_}, this,
                                  nlohmann::json::input_format_t::json, true, false);
    return parsed && check_end();
  }
  std::uint32_t root() const { return root_; }
  const Error& error() const { return error_; }
  std::size_t error_begin() const { return error_begin_; }
  std::size_t error_end() const { return error_end_; }

  // Events. Returning false stops the parser.
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() {
    return leaf(JsonType::null, [](JsonNode&) {});
  }
  bool boolean(bool value) {
    return leaf(JsonType::boolean, [&](JsonNode& node) { node.boolean = value; });
  }
  bool number_integer(number_integer_t value) {
    return leaf(JsonType::integer, [&](JsonNode& node) { node.integer = value; });
  }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(INT64_MAX))
      return leaf(JsonType::number, [&](JsonNode& node) { node.number = static_cast<double>(value); });
    return leaf(JsonType::integer, [&](JsonNode& node) { node.integer = static_cast<i64>(value); });
  }
  bool number_float(number_float_t value, const string_t&) {
    return leaf(JsonType::number, [&](JsonNode& node) { node.number = value; });
  }
  bool string(string_t& value) {
    const std::uint32_t at = document_.pool(value);
    return leaf(JsonType::string, [&](JsonNode& node) {
      node.text_at = at;
      node.text_size = static_cast<std::uint32_t>(value.size());
    });
  }
  bool binary(binary_t&) { return false; }
  bool key(string_t& value) {
    begin_token();
    end_token();
    key_at_ = document_.pool(value);
    key_size_ = static_cast<std::uint32_t>(value.size());
    key_begin_ = static_cast<std::uint32_t>(token_begin_);
    return true;
  }
  bool start_object(std::size_t) { return open(JsonType::object); }
  bool start_array(std::size_t) { return open(JsonType::array); }
  bool end_object() { return close() && check_duplicates(closed_); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& exception) {
    if (failed_) return false;
    const std::size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    return fail(ErrorCode::invalid_json, shortened(bare_message(exception.what()), 200),
                "write JSON as in RFC 8259", at, at + 1);
  }

 private:
  // Sets token_begin_ to the first byte of the token that was just read.
  void begin_token() {
    while (token_end_ < text_.size() &&
           std::string_view(" \t\r\n,:").find(text_[token_end_]) != std::string_view::npos)
      ++token_end_;
    token_begin_ = token_end_;
  }
  // The parser takes a NUL byte for the end of the text; what stands behind it must not go unread.
  bool check_end() {
    begin_token();
    if (token_begin_ == text_.size()) return true;
    return fail(ErrorCode::invalid_json, "the text goes on behind a NUL byte", "remove the NUL byte",
                token_begin_, token_begin_ + 1);
  }
  void end_token() { token_end_ = static_cast<std::size_t>(read_to_ - text_.data()); }

  // Null when there are too many values.
  JsonNode* add(JsonType type) {
    auto& nodes = document_.nodes_;
    if (nodes.size() >= kMaxValues) {
      fail(ErrorCode::too_large, concat("the input holds more than ", kMaxValues, " values"), "split it",
           token_begin_, token_end_);
      return nullptr;
    }
    const auto id = static_cast<std::uint32_t>(nodes.size());
    nodes.emplace_back();
    JsonNode& node = nodes.back();
    node.type = type;
    node.source = source_;
    node.begin = static_cast<std::uint32_t>(token_begin_);
    if (depth_ == 0) {
      root_ = id;
      return &node;
    }
    JsonNode& parent = nodes[open_[depth_ - 1]];
    node.parent = open_[depth_ - 1];
    if (parent.type == JsonType::object) {
      node.key_at = key_at_;
      node.key_size = key_size_;
      node.key_begin = key_begin_;
    }
    if (parent.last_child != 0) {
      nodes[parent.last_child].next = id;
      node.index = nodes[parent.last_child].index + 1;
    } else {
      parent.first_child = id;
    }
    parent.last_child = id;
    return &node;
  }

  template <class Fill>
  bool leaf(JsonType type, Fill fill) {
    begin_token();
    if (type == JsonType::integer || type == JsonType::number) {
      // The parser has read one byte past a number.
      while (token_end_ < text_.size() && is_number_char(text_[token_end_])) ++token_end_;
    } else {
      end_token();
    }
    JsonNode* node = add(type);
    if (!node) return false;
    node->end = static_cast<std::uint32_t>(token_end_);
    fill(*node);
    return true;
  }

  bool open(JsonType type) {
    begin_token();
    end_token();
    if (depth_ == kMaxDepth)
      return fail(ErrorCode::too_deep, concat("nested deeper than ", kMaxDepth, " levels"),
                  "flatten the input", token_begin_, token_end_);
    JsonNode* node = add(type);
    if (!node) return false;
    node->end = static_cast<std::uint32_t>(token_end_);
    open_[depth_++] = static_cast<std::uint32_t>(node - document_.nodes_.data());
    return true;
  }

  bool close() {
    begin_token();
    end_token();
    closed_ = open_[--depth_];
    document_.nodes_[closed_].end = static_cast<std::uint32_t>(token_end_);
    return true;
  }

  bool check_duplicates(std::uint32_t object) {
    const auto& nodes = document_.nodes_;
    const auto same_key = [&](const JsonNode& a, const JsonNode& b) {
      return a.key_size == b.key_size && document_.key(a) == document_.key(b);
    };
    const std::uint32_t first = nodes[object].first_child;
    if (first == 0) return true;
    const JsonNode* duplicate = nullptr;
    if (nodes[nodes[object].last_child].index < 32) {
      for (std::uint32_t a = first; a != 0; a = nodes[a].next)
        for (std::uint32_t b = first; b != a; b = nodes[b].next)
          if (same_key(nodes[a], nodes[b])) duplicate = duplicate ? duplicate : &nodes[a];
    } else {
      std::vector<std::uint32_t> members;
      for (std::uint32_t a = first; a != 0; a = nodes[a].next) members.push_back(a);
      std::ranges::stable_sort(members, {}, [&](std::uint32_t i) { return document_.key(nodes[i]); });
      for (std::size_t i = 1; i < members.size(); ++i)
        if (same_key(nodes[members[i]], nodes[members[i - 1]])) duplicate = &nodes[members[i]];
    }
    if (!duplicate) return true;
    const std::string_view key = document_.key(*duplicate);
    return fail(ErrorCode::duplicate_key,
                concat("key \"", shortened(key, 60), "\" is named twice in this object"), "keep one of them",
                duplicate->key_begin, duplicate->key_begin + key.size() + 2);
  }

  bool fail(ErrorCode code, std::string message, std::string help, std::size_t begin, std::size_t end) {
    failed_ = true;
    error_ = Error{code, "", std::move(message), std::move(help)};
    error_begin_ = begin;
    error_end_ = end;
    return false;
  }

  JsonDocument& document_;
  std::uint32_t source_;
  std::string_view text_;
  const char* read_to_ = nullptr;
  std::size_t token_begin_ = 0, token_end_ = 0;
  std::uint32_t key_at_ = 0, key_size_ = 0, key_begin_ = 0;
  std::uint32_t open_[kMaxDepth] = {};
  int depth_ = 0;
  std::uint32_t root_ = 0, closed_ = 0;
  bool failed_ = false;
  Error error_{};
  std::size_t error_begin_ = 0, error_end_ = 0;
};

std::string_view name_of(JsonType type) {
  constexpr std::string_view kNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  return kNames[static_cast<int>(type)];
}

Status JsonDocument::parse(std::string_view text, std::string_view source_name) {
  sources_.clear();
  nodes_.clear();
  pool_.clear();
  sources_.push_back({source_name, text});
  std::uint32_t root = 0;
  return parse_source(0, &root);
}

Status JsonDocument::parse_source(std::uint32_t source, std::uint32_t* root) {
  const std::string_view text = sources_[source].text;
  if (text.size() > kMaxInputBytes) {
    error_place_ = place_at(source, 0, 1);
    return Error{ErrorCode::too_large, "", concat("the input is longer than ", kMaxInputBytes, " bytes"),
                 "split it"};
  }
  JsonBuilder builder(*this, source);
  if (builder.run()) {
    *root = builder.root();
    return Ok{};
  }
  error_place_ = place_at(source, builder.error_begin(), builder.error_end());
  return builder.error();
}

std::uint32_t JsonDocument::pool(std::string_view text) {
  const auto at = static_cast<std::uint32_t>(pool_.size());
  pool_ += text;
  return at;
}

const JsonNode* JsonDocument::find(const JsonNode& object, std::string_view key) const {
  for (const JsonNode* child = first_child(object); child; child = next(*child)) {
    if (child->key_size == key.size() && this->key(*child) == key) return child;
  }
  return nullptr;
}

const JsonNode& JsonDocument::find_nearest(std::string_view pointer) const {
  const JsonNode* node = &root();
  const auto tokens = split_pointer(pointer);
  if (!tokens) return *node;
  for (const std::string& token : *tokens) {
    const JsonNode* child = nullptr;
    if (node->type == JsonType::object) {
      child = find(*node, token);
    } else if (node->type == JsonType::array) {
      for (child = first_child(*node); child && std::to_string(child->index) != token;) child = next(*child);
    }
    if (!child) break;
    node = child;
  }
  return *node;
}

std::uint32_t JsonDocument::append_child(std::uint32_t parent, std::string_view key, std::uint32_t source) {
  const std::uint32_t at = pool(key);
  const auto id = static_cast<std::uint32_t>(nodes_.size());
  nodes_.emplace_back();
  JsonNode& node = nodes_.back();
  node.source = source;
  node.parent = parent;
  node.key_at = at;
  node.key_size = static_cast<std::uint32_t>(key.size());
  JsonNode& owner = nodes_[parent];
  if (owner.last_child != 0) {
    nodes_[owner.last_child].next = id;
    node.index = nodes_[owner.last_child].index + 1;
  } else {
    owner.first_child = id;
  }
  owner.last_child = id;
  return id;
}

Status JsonDocument::set(std::string_view pointer, std::string_view text, std::string_view source_name) {
  const auto tokens = split_pointer(pointer);
  if (!tokens || tokens->empty())
    return Error{ErrorCode::invalid_pointer, std::string(pointer),
                 concat("\"", pointer, "\" is no JSON pointer"),
                 "write /section/field=value, for example /deployment/max_num_batched_tokens=8192"};

  // The value is parsed first: an unreadable one must leave the document as it was.
  const auto source = static_cast<std::uint32_t>(sources_.size());
  sources_.push_back({source_name, text});
  const std::size_t nodes_before = nodes_.size();
  std::uint32_t value = 0;
  if (auto parsed = parse_source(source, &value); !parsed) {
    nodes_.resize(nodes_before);
    // What starts like JSON was meant to be JSON.
    if (!text.empty() && std::string_view("{[\"").find(text[0]) != std::string_view::npos) {
      Error error = parsed.error();
      error.pointer = pointer;
      return error;
    }
    const std::uint32_t at = pool(text);
    value = static_cast<std::uint32_t>(nodes_.size());
    JsonNode node;
    node.type = JsonType::string;
    node.source = source;
    node.end = static_cast<std::uint32_t>(text.size());
    node.text_at = at;
    node.text_size = static_cast<std::uint32_t>(text.size());
    nodes_.push_back(node);
  }

  std::uint32_t at = 0;
  for (const std::string& token : *tokens) {
    std::uint32_t child = 0;
    if (nodes_[at].type == JsonType::null) nodes_[at].type = JsonType::object;
    if (nodes_[at].type == JsonType::object) {
      if (const JsonNode* found = find(nodes_[at], token))
        child = static_cast<std::uint32_t>(found - nodes_.data());
      else
        child = append_child(at, token, source);
    } else if (nodes_[at].type == JsonType::array) {
      for (child = nodes_[at].first_child; child != 0 && std::to_string(nodes_[child].index) != token;)
        child = nodes_[child].next;
    }
    if (child == 0)
      return Error{ErrorCode::invalid_pointer, std::string(pointer),
                   concat("\"", pointer, "\" leads through the ", name_of(nodes_[at].type), " that has no \"",
                          token, "\""),
                   "name an existing array index, or a field of an object"};
    at = child;
  }

  // The value takes the place's node, keeping its key and neighbours.
  JsonNode& target = nodes_[at];
  const JsonNode from = nodes_[value];
  target.type = from.type;
  target.boolean = from.boolean;
  target.source = from.source;
  target.begin = from.begin;
  target.end = from.end;
  target.key_begin = from.begin;
  target.text_at = from.text_at;
  target.text_size = from.text_size;
  target.first_child = from.first_child;
  target.last_child = from.last_child;
  target.integer = from.integer;
  target.number = from.number;
  for (std::uint32_t child = from.first_child; child != 0; child = nodes_[child].next)
    nodes_[child].parent = at;
  return Ok{};
}

std::string JsonDocument::pointer(const JsonNode& node) const {
  if (&node == &nodes_[0]) return "";
  const JsonNode& parent = nodes_[node.parent];
  const std::string own =
      parent.type == JsonType::array ? std::to_string(node.index) : escape_pointer_token(key(node));
  return pointer(parent) + "/" + own;
}

Place JsonDocument::place_at(std::uint32_t source, std::size_t begin, std::size_t end) const {
  const std::string_view name = sources_[source].name, text = sources_[source].text;
  begin = std::min(begin, text.size());
  const std::size_t before = text.substr(0, begin).rfind('\n');
  const std::size_t line_begin = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t line_end = std::min(text.find('\n', begin), text.size());
  const auto characters = [&](std::size_t from, std::size_t to) {
    return static_cast<i64>(std::ranges::count_if(
        text.substr(from, to - from), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  };
  Place place;
  place.source = name;
  place.line = 1 + static_cast<i64>(std::ranges::count(text.substr(0, line_begin), '\n'));
  place.column = 1 + characters(line_begin, begin);
  place.text = text.substr(line_begin, line_end - line_begin);
  place.width = max_of(1, characters(begin, std::max(begin, std::min(end, line_end))));
  return place;
}

Place JsonDocument::place(const JsonNode& node) const { return place_at(node.source, node.begin, node.end); }

Place JsonDocument::key_place(const JsonNode& node) const {
  if (node.key_size == 0) return place(node);
  return place_at(node.source, node.key_begin, node.key_begin + node.key_size + 2);
}

Place JsonDocument::place_in_file(std::string_view pointer) const {
  const JsonNode* node = &find_nearest(pointer);
  // The root is always of the first source.
  while (node->source != 0) node = &nodes_[node->parent];
  return key_place(*node);
}

Result<std::vector<std::string>> split_pointer(std::string_view pointer) {
  std::vector<std::string> tokens;
  if (pointer.empty()) return tokens;
  if (pointer[0] != '/')
    return Error{ErrorCode::invalid_pointer, std::string(pointer), "a JSON pointer starts with '/'", ""};
  for (std::size_t at = 1; at <= pointer.size();) {
    const std::size_t slash = std::min(pointer.find('/', at), pointer.size());
    std::string token;
    for (std::size_t i = at; i < slash; ++i) {
      const bool escape =
          pointer[i] == '~' && i + 1 < slash && (pointer[i + 1] == '0' || pointer[i + 1] == '1');
      if (pointer[i] == '~' && !escape)
        return Error{ErrorCode::invalid_pointer, std::string(pointer),
                     "in a JSON pointer ~ stands before 0 or 1", "write ~0 for ~ and ~1 for /"};
      token += escape ? (pointer[++i] == '0' ? '~' : '/') : pointer[i];
    }
    tokens.push_back(std::move(token));
    at = slash + 1;
  }
  return tokens;
}

std::string escape_pointer_token(std::string_view token) {
  std::string out;
  for (char c : token) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

}  // namespace moeplan
