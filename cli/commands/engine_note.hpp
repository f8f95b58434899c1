// What a report says of a contract that no engine runs.
#pragma once

#include "planner/core/report.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// A note, where the deployment or a plan that it states is of such a contract; else nothing.
void add_engine_note(Report& report, const Deployment& deployment);

}  // namespace moeplan
