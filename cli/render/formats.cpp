#include "cli/render/render.hpp"

namespace moeplan {

std::span<const Format> formats() {
  static constexpr Format kFormats[] = {
      {"table", render_table, false},
      {"json", render_json, true},
      {"svg", render_svg, false},
      {"html", render_html, false},
  };
  return kFormats;
}

}  // namespace moeplan
