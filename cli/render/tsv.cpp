// Reports as tab-separated values: what csv has, without quotes. Tabs in a text are escaped as \x09.
#include "cli/render/render.hpp"
#include "cli/render/rows.hpp"

namespace moeplan {

std::string render_tsv(std::span<const Report> reports, std::span<const Problem>, const RenderOptions&) {
  return one_sheet(reports, '\t', "\n", [](std::string_view text) { return std::string(text); });
}

}  // namespace moeplan
