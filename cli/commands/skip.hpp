// What a report says where nothing could be run and --if-available asks for no more.
#pragma once

#include "planner/core/report.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

// The fact "skipped", and a row of table `skips`, a finding and a check: so every format says it.
void add_skip(Report& report, const Error& why);

// What a skip says: of an error's lines the first.
std::string skip_reason(const Error& why);

}  // namespace moeplan
