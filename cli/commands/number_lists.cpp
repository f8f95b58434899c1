#include "cli/commands/number_lists.hpp"

#include <algorithm>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kMostItems = 64;  // of a list

// -1: it is none, or far too large.
i64 number_of(std::string_view digits, bool takes_k) {
  const bool has_k = takes_k && (digits.ends_with('k') || digits.ends_with('K'));
  if (has_k) digits.remove_suffix(1);
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != digits.npos) return -1;
  i64 number = 0;
  for (const char digit : digits) number = 10 * number + (digit - '0');
  return has_k ? 1024 * number : number;
}

// What is wrong with a number; "": nothing.
std::string mistake_in(const NumberRule& rule, i64 number) {
  if (!rule.choices.empty() && std::ranges::find(rule.choices, number) == rule.choices.end())
    return concat("has to be ", join(rule.choices, ", ", " or "));
  if (number >= rule.least && number <= rule.most && number % rule.page_tokens == 0) return "";
  return concat("has to be ",
                rule.takes_k ? concat("whole pages of ", rule.page_tokens, " tokens, 8k for 8192,")
                             : std::string("a whole number"),
                " from ", grouped(rule.least), " to ", grouped(rule.most));
}

}  // namespace

Error refusal(const NumberRule& rule, std::string_view text, std::string what) {
  return {ErrorCode::invalid_value, "",
          concat(rule.option, text.empty() ? "" : " ", shortened(text, 40), ": ", what),
          concat("for example ", rule.option, " ", rule.example)};
}

Result<std::vector<i64>> read_list(const NumberRule& rule, const std::optional<std::string>& text) {
  std::vector<i64> numbers;
  if (!text) return numbers;
  i64 place = 0;
  for (std::size_t at = 0; at <= text->size();) {
    ++place;
    const std::size_t end = std::min(text->find(',', at), text->size());
    const std::string_view item = std::string_view(*text).substr(at, end - at);
    if (place > kMostItems) return refusal(rule, *text, concat("more than ", kMostItems, " numbers"));
    if (item.empty())
      return refusal(rule, *text, text->empty() ? "the list is empty" : concat("item ", place, " is empty"));
    const i64 number = number_of(item, rule.takes_k);
    if (const std::string mistake = mistake_in(rule, number); !mistake.empty())
      return refusal(rule, *text, concat("item ", place, ", ", shortened(item, 20), ", ", mistake));
    if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
    at = end + 1;
  }
  return numbers;
}

Result<std::optional<i64>> read_number(const NumberRule& rule, const std::optional<std::string>& text) {
  if (!text) return std::optional<i64>();
  const i64 number = number_of(*text, rule.takes_k);
  if (const std::string mistake = mistake_in(rule, number); !mistake.empty())
    return refusal(rule, *text, mistake);
  return std::optional<i64>(number);
}

}  // namespace moeplan
