#include "cli/commands/today.hpp"

#include <ctime>

#include "planner/core/check.hpp"

namespace moeplan {

Date date_or_today(const std::string& text) {
  if (!text.empty()) {
    const auto date = parse_date(text);
    MOEPLAN_CHECK(date, "a date that main did not check");
    return *date;
  }
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return {utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday};
}

}  // namespace moeplan
