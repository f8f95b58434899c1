#include "cli/render/marks.hpp"

#include <filesystem>

namespace moeplan {

std::vector<Mark> marks_of(const Report& report) {
  std::vector<Mark> marks;
  if (report.answered_no)
    marks.push_back({.rule = std::string(kVerdictRule),
                     .level = "error",
                     .message = report.verdict,
                     .source = report.source,
                     .line = 1,
                     .column = 1});
  for (const Finding& f : report.findings)
    marks.push_back({f.rule, f.level, f.message, f.remedy, report.source, f.pointer, max_of(1, f.line),
                     max_of(1, f.column), f.bytes});
  return marks;
}

std::vector<Mark> marks_of(std::span<const Report> reports, std::span<const Problem> problems) {
  std::vector<Mark> marks;
  for (const auto& [error, place] : problems)
    marks.push_back({std::string(name_of(error.code)), "error", error.message, error.help,
                     std::string(place.source), error.pointer, max_of(1, place.line), max_of(1, place.column),
                     0, true});
  for (const Report& report : reports) {
    for (Mark& mark : marks_of(report)) marks.push_back(std::move(mark));
  }
  return marks;
}

std::string path_of(std::string_view source, const RenderOptions& options) {
  if (source.empty() || source == "stdin" || source.starts_with("--")) return "";
  const auto path = (std::filesystem::path(options.working_folder) / source).lexically_normal().string();
  const std::string& root = options.root_folder;
  if (root.empty() || root == "/" || !path.starts_with(root + "/")) return path;
  return path.substr(root.size() + 1);
}

}  // namespace moeplan
