#include "cli/import/literal.hpp"

#include <utility>

namespace moeplan {
namespace {

constexpr int kDeepest = 64;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_number(std::string_view word) {
  std::size_t i = word.starts_with('-') || word.starts_with('+') ? 1 : 0;
  bool digits = false;
  for (; i < word.size(); ++i) {
    if (is_digit(word[i]))
      digits = true;
    else if (word[i] != '.' && word[i] != 'e' && word[i] != 'E' && word[i] != '-' && word[i] != '+')
      return false;
  }
  return digits;
}

class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : text_(text) {}

  bool value(Literal& out, int depth) {
    skip();
    out.begin = at_;
    if (depth > kDeepest) return fail("nested deeper than 64 levels");
    if (at_ >= text_.size()) return fail_at_end();
    const bool fine = value_at(text_[at_], out, depth);
    out.end = at_;
    return fine;
  }

  // "name=value, …" up to `close`, or to what is no assignment when close is 0.
  bool assignments(Literal& out, char close, int depth) {
    out.type = Literal::Type::map;
    for (;;) {
      skip();
      if (close && at_ >= text_.size()) return fail_at_end();
      if (close && text_[at_] == close) return ++at_, true;
      const std::size_t begin = at_;
      while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
      if (at_ == begin || at_ >= text_.size() || text_[at_] != '=') {
        if (!close) return true;
        // A positional argument.
        at_ = begin;
        Literal ignored;
        if (!value(ignored, depth + 1)) return false;
      } else {
        const auto name = text_.substr(begin, at_ - begin);
        ++at_;
        out.members.push_back({std::string(name), {}});
        if (!value(out.members.back().value, depth + 1)) return false;
      }
      skip();
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      if (!close) return true;
    }
  }

  std::size_t at() const { return at_; }
  const std::string& error() const { return error_; }
  bool ended_early() const { return ended_early_; }

 private:
  bool value_at(char c, Literal& out, int depth) {
    if (c == '{') return map(out, depth);
    if (c == '[') return list(out, ']', depth);
    if (c == '(') return list(out, ')', depth);
    if (c == '\'' || c == '"') return quoted(out);
    if (c == '<') return repr();
    return word(out, depth);
  }

  bool map(Literal& out, int depth) {
    out.type = Literal::Type::map;
    ++at_;
    for (;;) {
      skip();
      if (at_ >= text_.size()) return fail_at_end();
      if (text_[at_] == '}') return ++at_, true;
      Literal key;
      if (!value(key, depth + 1)) return false;
      skip();
      if (at_ >= text_.size()) return fail_at_end();
      if (text_[at_] == ':') {
        ++at_;
        out.members.push_back({std::move(key.text), {}});
        if (!value(out.members.back().value, depth + 1)) return false;
      }
      if (!separator('}')) return false;
    }
  }

  bool list(Literal& out, char close, int depth) {
    out.type = Literal::Type::list;
    ++at_;
    for (;;) {
      skip();
      if (at_ >= text_.size()) return fail_at_end();
      if (text_[at_] == close) return ++at_, true;
      if (!value(out.items.emplace_back(), depth + 1)) return false;
      if (!separator(close)) return false;
    }
  }

  bool separator(char close) {
    skip();
    if (at_ >= text_.size()) return fail_at_end();
    if (text_[at_] == ',') return ++at_, true;
    return text_[at_] == close || fail(std::string("expected ',' or '") + close + "'");
  }

  bool quoted(Literal& out) {
    out.type = Literal::Type::text;
    const char quote = text_[at_++];
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) return ++at_, true;
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out.text += text_[at_];
    }
    return fail_at_end();
  }

  // <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>: no value of ours.
  bool repr() {
    int open = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '<') ++open;
      if (text_[at_] == '>' && --open == 0) return ++at_, true;
    }
    return fail_at_end();
  }

  bool word(Literal& out, int depth) {
    const std::size_t begin = at_;
    constexpr std::string_view kEnds = ",:]})({['\"<>=";
    while (at_ < text_.size() && !is_space(text_[at_]) && kEnds.find(text_[at_]) == std::string_view::npos)
      ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return fail("a value was expected");
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      return assignments(out, ')', depth + 1);
    }
    if (word == "None" || word == "null") return true;
    if (word == "True" || word == "False" || word == "true" || word == "false") {
      out.type = Literal::Type::boolean;
      out.boolean = word[0] == 'T' || word[0] == 't';
      return true;
    }
    out.type = is_number(word) ? Literal::Type::number : Literal::Type::text;
    out.text = word;
    return true;
  }

  void skip() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }
  bool fail_at_end() {
    ended_early_ = true;
    return fail("the text ends inside a value");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
  bool ended_early_ = false;
};

template <class Read>
ParsedLiteral parse(std::string_view text, Read read) {
  LiteralParser parser(text);
  ParsedLiteral parsed;
  read(parser, parsed.value);
  parsed.end = parsed.error_at = parser.at();
  parsed.error = parser.error();
  parsed.ended_early = parser.ended_early();
  return parsed;
}

}  // namespace

const Literal* Literal::find(std::string_view name) const {
  for (const LiteralMember& member : members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

ParsedLiteral parse_literal(std::string_view text) {
  return parse(text, [](LiteralParser& parser, Literal& out) { parser.value(out, 0); });
}

ParsedLiteral parse_assignments(std::string_view text) {
  return parse(text, [](LiteralParser& parser, Literal& out) { parser.assignments(out, '\0', 0); });
}

}  // namespace moeplan
