// A tiny evaluator of printed formulas that shares nothing with the planner's: it reads an expression over
// symbols, or one with its values written out and "= value" behind any part, which it then checks.
#pragma once

#include <cctype>
#include <map>
#include <optional>
#include <string>

namespace moeplan::test {

class FormulaEvaluator {
 public:
  using Values = std::map<std::string, long long>;

  // The value, or none where the text is no formula or says "= value" of what has another value.
  static std::optional<long long> evaluate(const std::string& text, const Values& values) {
    FormulaEvaluator evaluator(text, values, false);
    return evaluator.whole();
  }
  // The same for "min(1,024 x 2 = 2,048, 7) = 7": groups of digits, and a cross between factors.
  static std::optional<long long> evaluate_printed(const std::string& text) {
    static const Values kNone;
    FormulaEvaluator evaluator(text, kNone, true);
    return evaluator.whole();
  }

 private:
  FormulaEvaluator(const std::string& text, const Values& values, bool printed)
      : text_(text), values_(values), printed_(printed) {}

  std::optional<long long> whole() {
    const long long value = equation();
    blanks();
    return fine_ && at_ == text_.size() ? std::optional(value) : std::nullopt;
  }

  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char next() {
    blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool digit_at(std::size_t at) const {
    return at < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at]));
  }

  // sum ["=" number]...
  long long equation() {
    const long long value = sum();
    while (printed_ && next() == '=') {
      ++at_;
      if (next(); number() != value) fine_ = false;
    }
    return value;
  }
  long long sum() {
    long long value = product();
    for (char c = next(); c == '+' || c == '-'; c = next()) {
      ++at_;
      const long long right = product();
      value = c == '+' ? value + right : value - right;
    }
    return value;
  }
  long long product() {
    long long value = atom();
    for (char c = next(); c == (printed_ ? 'x' : '*') || c == '/'; c = next()) {
      ++at_;
      const long long right = atom();
      if (c == '/' && right == 0) {
        fine_ = false;
        return 0;
      }
      value = c == '/' ? value / right : value * right;
    }
    return value;
  }
  long long number() {
    long long value = 0;
    if (!digit_at(at_)) fine_ = false;
    while (digit_at(at_) || (printed_ && at_ < text_.size() && text_[at_] == ',' && digit_at(at_ + 1))) {
      if (text_[at_] != ',') value = value * 10 + (text_[at_] - '0');
      ++at_;
    }
    return value;
  }
  long long atom() {
    const char c = next();
    if (c == '(') {
      ++at_;
      const long long value = sum();
      if (next() == ')')
        ++at_;
      else
        fine_ = false;
      return value;
    }
    if (std::isdigit(static_cast<unsigned char>(c))) return number();
    std::string word;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      word += text_[at_++];
    if (next() == '(') return call(word);
    const auto found = values_.find(word);
    if (found == values_.end()) {
      fine_ = false;
      at_ = text_.size();
      return 0;
    }
    return found->second;
  }
  long long call(const std::string& function) {
    ++at_;
    const long long a = equation();
    if (function == "P") {
      if (next() == ')')
        ++at_;
      else
        fine_ = false;
      long long power = 1;
      while (power < a) power *= 2;
      return power;
    }
    const bool is_bound = function == "min" || function == "max";
    if (!is_bound && function != "cd" && function != "up") fine_ = false;
    long long value = a;
    while (fine_ && next() == ',') {
      ++at_;
      const long long b = equation();
      if (function == "min")
        value = b < value ? b : value;
      else if (function == "max")
        value = b > value ? b : value;
      else if (!is_bound && b > 0)
        value = (a + b - 1) / b * (function == "up" ? b : 1);
      else
        fine_ = false;
    }
    if (next() == ')')
      ++at_;
    else
      fine_ = false;
    return value;
  }

  const std::string& text_;
  const Values& values_;
  bool printed_;
  std::size_t at_ = 0;
  bool fine_ = true;
};

}  // namespace moeplan::test
