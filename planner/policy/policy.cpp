#include "planner/policy/policy.hpp"

#include "planner/core/text.hpp"
#include "planner/policy/rules.hpp"

namespace moeplan {
namespace {

int days_in_month(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return kDays[month - 1] + (month == 2 && leap ? 1 : 0);
}

std::optional<int> number(std::string_view digits) {
  int value = 0;
  for (char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = 10 * value + (digit - '0');
  }
  return value;
}

}  // namespace

std::optional<Date> parse_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = number(text.substr(0, 4)), month = number(text.substr(5, 2)),
             day = number(text.substr(8, 2));
  if (!year || !month || !day || *month < 1 || *month > 12) return std::nullopt;
  if (*day < 1 || *day > days_in_month(*year, *month)) return std::nullopt;
  return Date{*year, *month, *day};
}

std::string text_of(const Date& date) {
  const auto padded = [](int value, std::size_t width) {
    std::string digits = std::to_string(value);
    while (digits.size() < width) digits.insert(0, 1, '0');
    return digits;
  };
  return concat(padded(date.year, 4), "-", padded(date.month, 2), "-", padded(date.day, 2));
}

bool matches(const Waiver& waiver, std::string_view rule, std::string_view config) {
  if (waiver.rule != rule) return false;
  return waiver.config == "*" || waiver.config == config ||
         (config.ends_with(waiver.config) && config[config.size() - waiver.config.size() - 1] == '/');
}

Policy default_policy() {
  Policy policy;
  policy.rules.resize(policy_rules().size());
  return policy;
}

}  // namespace moeplan
