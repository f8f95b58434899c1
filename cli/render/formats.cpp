#include "cli/render/render.hpp"

namespace moeplan {

std::span<const Format> formats() {
  static constexpr Format kFormats[] = {
      {"table", render_table, false},       // people at a terminal
      {"json", render_json, true},          // programs
      {"jsonl", render_jsonl, true},        // programs that read row by row
      {"csv", render_csv, false},           // spreadsheets
      {"tsv", render_tsv, false},           // cut, awk and their kind
      {"markdown", render_markdown, true},  // comments and job summaries
      {"junit", render_junit, true},        // CI servers
      {"sarif", render_sarif, true},        // code scanning
      {"github", render_github, true},      // annotations of a workflow
      {"svg", render_svg, false},           // a picture
      {"html", render_html, false},         // a page
      {"flags", render_flags, false},       // the engine's command line
      {"env", render_env, false},           // its environment
  };
  return kFormats;
}

}  // namespace moeplan
