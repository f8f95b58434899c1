// Reports as CSV, RFC 4180: one header, every row of every table, CRLF.
#include "cli/render/render.hpp"
#include "cli/render/rows.hpp"

namespace moeplan {
std::string render_csv(std::span<const Report> reports, std::span<const Problem>, const RenderOptions&) {
  return one_sheet(reports, ',', "\r\n", csv_quoted);
}

}  // namespace moeplan
