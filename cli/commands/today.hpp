// The day that waivers are judged by.
#pragma once

#include <string>

#include "planner/policy/policy.hpp"

namespace moeplan {

// `text`, which main has checked, as a date; the system's day in UTC for "".
Date date_or_today(const std::string& text);

}  // namespace moeplan
