// What a report says of a contract that no engine runs.
#pragma once

#include "planner/core/report.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// A note, where the deployment or a plan that it states is of such a contract; else nothing.
void add_engine_note(Report& report, const Deployment& deployment);
// The same of a contract: once, however often it is asked for.
void add_engine_note(Report& report, const Contract& contract);

}  // namespace moeplan
