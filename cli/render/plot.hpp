// A chart on a terminal.
#pragma once

#include <string>

#include "cli/render/render.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// Box-drawn axes and a glyph for each curve; points stand at equal distances.
std::string plot(const Chart& chart, const RenderOptions& options);

}  // namespace moeplan
