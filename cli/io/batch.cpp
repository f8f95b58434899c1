#include "cli/io/batch.hpp"

#include <vector>

#include "cli/io/request_fields.hpp"
#include "cli/io/response.hpp"
#include "planner/core/text.hpp"
#include "planner/plan.hpp"

namespace moeplan {

bool BatchAnswerer::answer(std::string_view text, i64 line, std::string& out) {
  JsonWriter json(out);
  if (auto parsed = document_.parse(text, "stdin"); !parsed) {
    Error error = parsed.error();
    error.message = concat("line ", line, ", column ", document_.error_place().column, ": ", error.message);
    write_error_response(json, "", line, error);
    return false;
  }
  std::vector<Problem> problems;
  const PlanRequest request =
      read_request({.document = document_, .problems = problems}, document_.root(), {});
  if (!problems.empty()) {
    write_error_response(json, request.id, line, problems.front().error);
    return false;
  }
  const auto layout = plan(request);
  if (!layout) {
    write_error_response(json, request.id, line, layout.error());
    return false;
  }
  write_response(json, request, *layout);
  return true;
}

void answer_too_long(i64 line, std::size_t limit, std::string& out) {
  JsonWriter json(out);
  write_error_response(
      json, "", line,
      Error{ErrorCode::too_large, "", concat("line ", line, " is longer than ", limit, " bytes"),
            "one request a line"});
}

}  // namespace moeplan
