// Reports as CSV, RFC 4180: one header, every row of every table, CRLF.
#include "cli/render/render.hpp"
#include "cli/render/rows.hpp"

namespace moeplan {
namespace {

std::string quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string render_csv(std::span<const Report> reports, std::span<const Problem>, const RenderOptions&) {
  return one_sheet(reports, ',', "\r\n", quoted);
}

}  // namespace moeplan
