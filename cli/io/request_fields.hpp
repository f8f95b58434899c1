// The request format: field tables of one planning request (a line of `batch`, a plan of a config).
#pragma once

#include <optional>
#include <span>

#include "cli/io/fields.hpp"
#include "planner/plan_request.hpp"

namespace moeplan {

// What requests may leave to their surroundings.
struct RequestDefaults {
  const Contract* contract = nullptr;
  std::optional<DeviceProfile> device;
  bool contract_is_forced = false;       // the request's own contract is ignored
  bool config_reports_contract = false;  // a config around the request says when there is none
};

// Reads a request object. Mistakes go to context.problems; the answer counts only when there are none.
// The id is read even when the rest is wrong.
PlanRequest read_request(FieldContext context, const JsonNode& node, const RequestDefaults& defaults);

// All rows of a request, for the schema.
std::span<const Field> request_fields();

// The contract of that name; else notes the problem at `node` and returns null.
const Contract* read_contract(FieldContext& context, const JsonNode& node, std::string_view id);

}  // namespace moeplan
