// Formats: each renders any Report. One row in kFormats and one file a format.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/io/fields.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

struct RenderOptions {
  i64 width = 100;     // columns of the terminal; bars that do not fit are left out
  bool ascii = false;  // no glyphs beyond ASCII
  bool quiet = false;  // the verdict alone
  bool plots = false;  // a table also draws its report's chart
};

// Reports in, in the order of their configs, and the mistakes of configs that have none; text out.
using Render = std::string (*)(std::span<const Report>, std::span<const Problem>, const RenderOptions&);

struct Format {
  std::string_view name;
  Render render;
  // Formats for programs answer with the problems too; otherwise people read them on stderr.
  bool renders_problems;
};

std::span<const Format> formats();

std::string render_table(std::span<const Report> reports, std::span<const Problem>,
                         const RenderOptions& options);
// One report as such; several, or problems, in one object: {"schema", "errors"?, "reports"?}.
std::string render_json(std::span<const Report> reports, std::span<const Problem>,
                        const RenderOptions& options);
// The report's chart, else its tables, as one picture; all reports below each other.
std::string render_svg(std::span<const Report> reports, std::span<const Problem>,
                       const RenderOptions& options);
// One self-contained page: no scripts, nothing that is loaded.
std::string render_html(std::span<const Report> reports, std::span<const Problem>,
                        const RenderOptions& options);

// "error[code]: message" with its place, the line and a marker under it, and the remedy.
std::string render_problems(std::span<const Problem> problems);
}  // namespace moeplan
