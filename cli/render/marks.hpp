// What a report and its config's mistakes come to as marks on lines of files, for SARIF, JUnit and
// annotations.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/render/render.hpp"

namespace moeplan {

// One mark: a finding, a verdict of no, or a mistake of a config.
struct Mark {
  std::string rule;        // a stable word
  std::string_view level;  // one of kLevels
  std::string message;
  std::string remedy;
  std::string source;  // file name, "stdin", "--set", or ""
  std::string pointer;
  i64 line = 0, column = 0;
  i64 bytes = 0;
  bool is_mistake = false;  // the config could not be answered
};

// The rule of a verdict of no.
constexpr std::string_view kVerdictRule = "verdict";

std::vector<Mark> marks_of(const Report& report);
std::vector<Mark> marks_of(std::span<const Report> reports, std::span<const Problem> problems);

// A source as a path from the root folder; absolute where it lies elsewhere; "" for what is no file.
std::string path_of(std::string_view source, const RenderOptions& options);

}  // namespace moeplan
