#include "cli/import/shell.hpp"

#include <algorithm>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr int kDeepestDefault = 8;
constexpr std::size_t kMostVariables = 1000, kMostCommands = 10'000;
constexpr std::size_t kLongestExpansion = std::size_t{1} << 20;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

std::size_t name_size(std::string_view text) {
  if (text.empty() || !is_name_start(text[0])) return 0;
  std::size_t size = 1;
  while (size < text.size() && is_name_char(text[size])) ++size;
  return size;
}

// The brace that closes the one ahead of `at`, or npos.
std::size_t closing_brace(std::string_view text, std::size_t at) {
  int open = 1;
  for (; at < text.size(); ++at) {
    if (text[at] == '$' && at + 1 < text.size() && text[at + 1] == '{') ++open;
    if (text[at] == '}' && --open == 0) return at;
  }
  return std::string_view::npos;
}

class ShellReader {
 public:
  ShellReader(std::string_view text, const ShellLookup& lookup) : text_(text), lookup_(lookup) {}

  ShellText read() {
    while (!out_.problem && at_ < text_.size()) step();
    end_word();
    end_command();
    return std::move(out_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\\') return escape();
    if (c == '\'') return single_quoted();
    if (c == '"') return double_quoted();
    if (c == '$') return dollar();
    if (c == '`') return refuse("a command in backquotes");
    if (c == '#' && !in_word_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    if (c == '\n' || c == ';') {
      end_word();
      end_command();
      ++at_;
      return;
    }
    if (c == '&' || c == '|') {
      // "2>&1" and "cmd &&": what follows is another command either way.
      if (c == '&' && in_word_ && word_.text.ends_with('>')) return put();
      end_word();
      end_command();
      ++at_;
      return;
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
      ++at_;
      return;
    }
    if (c == '<' && text_.substr(at_).starts_with("<<")) return refuse("a here-document");
    put();
  }

  void put() {
    begin_word();
    word_.text += text_[at_++];
  }

  void escape() {
    if (at_ + 1 >= text_.size())
      return fail("a backslash at the end", "finish the line, or drop the backslash", at_);
    // A continued line; editors on Windows leave a carriage return.
    if (text_[at_ + 1] == '\n') {
      at_ += 2;
      return;
    }
    if (text_.substr(at_ + 1).starts_with("\r\n")) {
      at_ += 3;
      return;
    }
    begin_word();
    word_.text += text_[at_ + 1];
    at_ += 2;
  }

  void single_quoted() {
    begin_word();
    const std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) return fail("a quote that is never closed", "close it with '", at_);
    word_.text += text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
  }

  void double_quoted() {
    begin_word();
    const std::size_t begin = at_++;
    while (!out_.problem) {
      if (at_ >= text_.size()) return fail("a quote that is never closed", "close it with \"", begin);
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return;
      }
      if (c == '`') return refuse("a command in backquotes");
      if (c == '$') {
        in_quotes_ = true;
        dollar();
        in_quotes_ = false;
        continue;
      }
      if (c == '\\' && at_ + 1 < text_.size()) {
        const char next = text_[at_ + 1];
        at_ += 2;
        if (next == '\n') continue;
        if (next != '"' && next != '\\' && next != '$' && next != '`') word_.text += '\\';
        word_.text += next;
        continue;
      }
      word_.text += c;
      ++at_;
    }
  }

  void dollar() {
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.starts_with('(')) return refuse("a command in $( )");
    std::size_t size = 1;
    if (rest.starts_with('{')) {
      const std::size_t end = closing_brace(text_, at_ + 2);
      if (end == std::string_view::npos) return fail("a ${ that is never closed", "close it with }", at_);
      size = end - at_ + 1;
    } else if (name_size(rest) > 0) {
      size = 1 + name_size(rest);
    } else {
      // "$@" and "$1" are a script's own arguments; a lone dollar sign is itself.
      if (!rest.empty() && std::string_view("@*#?$!0123456789").find(rest[0]) != std::string_view::npos) {
        at_ += 2;
        return;
      }
      return put();
    }
    const auto expanded = expand_variables(
        text_.substr(at_, size),
        [this](std::string_view name) {
          auto value = value_of(name);
          if (value) out_.expanded.push_back({std::string(name), *value, 0});
          return value;
        },
        false);
    if (!expanded.error.empty()) return fail(expanded.error, expanded.help, at_ + expanded.error_at);
    expanded_bytes_ += expanded.text.size();
    if (expanded_bytes_ > kLongestExpansion) return fail("variables of more than 1 MiB in all", "", at_);
    at_ += size;
    if (in_quotes_) {
      begin_word();
      word_.text += expanded.text;
      return;
    }
    // Unquoted values are cut at blanks.
    for (char c : expanded.text) {
      if (c == ' ' || c == '\t' || c == '\n') {
        end_word();
        continue;
      }
      begin_word();
      word_.text += c;
    }
  }

  std::optional<std::string> value_of(std::string_view name) const {
    for (auto at = command_.variables.rbegin(); at != command_.variables.rend(); ++at) {
      if (at->name == name) return at->value;
    }
    for (auto at = out_.variables.rbegin(); at != out_.variables.rend(); ++at) {
      if (at->name == name) return at->value;
    }
    return lookup_(name);
  }

  void begin_word() {
    if (!in_word_) word_ = {"", at_};
    in_word_ = true;
  }

  void end_word() {
    if (!in_word_) return;
    in_word_ = false;
    const std::size_t size = name_size(word_.text);
    const bool is_assignment = size > 0 && size < word_.text.size() && word_.text[size] == '=';
    const bool ahead =
        command_.words.empty() ||
        (command_.words.size() == 1 && (command_.words[0].text == "export" ||
                                        command_.words[0].text == "env" || command_.words[0].text == "exec"));
    if (is_assignment && ahead) {
      command_.variables.push_back({word_.text.substr(0, size), word_.text.substr(size + 1), word_.at});
      return;
    }
    command_.words.push_back(std::move(word_));
  }

  void end_command() {
    const bool only_assignments =
        command_.words.empty() || (command_.words.size() == 1 && command_.words[0].text == "export");
    if (only_assignments) {
      for (ShellVariable& variable : command_.variables) {
        variable.exported = exports_all_ || !command_.words.empty();
        out_.variables.push_back(std::move(variable));
      }
    } else {
      exports_all_ =
          exports_all_ || (command_.words[0].text == "set" && command_.words.size() > 1 &&
                           (command_.words[1].text == "-a" || command_.words.back().text == "allexport"));
      command_.variables_ahead = out_.variables.size();
      out_.commands.push_back(std::move(command_));
    }
    command_ = {};
    if (out_.variables.size() > kMostVariables || out_.commands.size() > kMostCommands)
      fail("more commands or variables than a start script has", "give the command alone", at_);
  }

  void refuse(std::string_view what) {
    fail(concat(what, ": no shell is run"), "write the words it stands for", at_);
  }
  void fail(std::string message, std::string help, std::size_t at) {
    if (!out_.problem) out_.problem = ShellProblem{std::move(message), std::move(help), at};
    at_ = text_.size();
  }

  std::string_view text_;
  const ShellLookup& lookup_;
  std::size_t at_ = 0;
  ShellText out_;
  ShellCommand command_;
  ShellWord word_;
  bool in_word_ = false;
  bool in_quotes_ = false;
  bool exports_all_ = false;
  std::size_t expanded_bytes_ = 0;
};

// One "NAME…" between braces.
void expand_braced(std::string_view inside, const ShellLookup& lookup, bool dollar_escape, int depth,
                   Expanded& out) {
  const std::size_t size = name_size(inside);
  const std::string name(inside.substr(0, size));
  std::string_view rest = inside.substr(size);
  const auto fail = [&](std::string message, std::string help) {
    out.error = std::move(message);
    out.help = std::move(help);
  };
  if (size == 0) return fail("a ${ } that names no variable", "write ${NAME}");
  const auto value = lookup(name);
  if (rest.empty()) {
    if (!value)
      return fail(
          concat("${", name, "} is not set here"),
          concat("set it, write ${", name, ":-default}, or allow the environment's with --allow-env ", name));
    out.text += *value;
    return;
  }
  // With ':' an empty value counts as unset.
  const bool colon = rest.starts_with(':');
  if (colon) rest.remove_prefix(1);
  const char sign = rest.empty() ? '\0' : rest[0];
  if (sign != '-' && sign != '+' && sign != '?' && sign != '=')
    return fail(concat("${", name, "} and what follows its name is not understood"),
                "${NAME}, ${NAME:-default}, ${NAME-default} and ${NAME:?message} are");
  const bool is_set = value && !(colon && value->empty());
  if (sign == '?' && !is_set)
    return fail(concat("${", name, "} is not set: ", rest.substr(1)),
                concat("set it, or allow the environment's with --allow-env ", name));
  if ((sign == '+') == !is_set) {
    if (sign != '+') out.text += *value;
    return;
  }
  if (sign != '+' && is_set) {
    out.text += *value;
    return;
  }
  auto word = expand_variables(rest.substr(1), lookup, dollar_escape, depth + 1);
  out.text += word.text;
  out.error = std::move(word.error);
  out.help = std::move(word.help);
}

}  // namespace

Expanded expand_variables(std::string_view text, const ShellLookup& lookup, bool dollar_escape, int depth) {
  Expanded out;
  if (depth > kDeepestDefault) {
    out.error = "defaults nested deeper than 8 levels";
    return out;
  }
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '$') {
      out.text += text[at++];
      continue;
    }
    const std::string_view rest = text.substr(at + 1);
    std::size_t used = 1;
    if (dollar_escape && rest.starts_with('$')) {
      out.text += '$';
      used = 2;
    } else if (rest.starts_with('{')) {
      const std::size_t end = closing_brace(text, at + 2);
      if (end == std::string_view::npos) {
        out.error = "a ${ that is never closed";
        out.help = "close it with }";
      } else {
        expand_braced(text.substr(at + 2, end - at - 2), lookup, dollar_escape, depth, out);
        used = end - at + 1;
      }
    } else if (const std::size_t size = name_size(rest)) {
      expand_braced(rest.substr(0, size), lookup, dollar_escape, depth, out);
      used = size + 1;
    } else {
      out.text += '$';
    }
    if (out.text.size() > kLongestExpansion) out.error = "a text longer than 1 MiB";
    if (!out.error.empty()) {
      out.error_at = at;
      return out;
    }
    at += used;
  }
  return out;
}

ShellText read_shell(std::string_view text, const ShellLookup& lookup) {
  return ShellReader(text, lookup).read();
}

}  // namespace moeplan
