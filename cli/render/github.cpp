// Reports as workflow commands: the runner turns each into an annotation at its line. Verdicts stand first,
// as plain lines of the log.
#include <algorithm>

#include "cli/render/marks.hpp"
#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// The runner keeps ten annotations of a kind and step, and says nothing of the others.
constexpr std::size_t kMostOfAKind = 10;

// printable() left no line ends; a percent sign would be read as an escape.
std::string message_text(std::string_view text) {
  std::string out;
  for (char c : printable(text)) {
    if (c == '%')
      out += "%25";
    else
      out += c;
  }
  return out;
}

std::string property_text(std::string_view text) {
  std::string out;
  for (char c : message_text(text)) {
    if (c == ':')
      out += "%3A";
    else if (c == ',')
      out += "%2C";
    else
      out += c;
  }
  return out;
}

std::string command_of(const Mark& mark, const RenderOptions& options) {
  std::string out = concat("::", mark.level == "note" ? "notice" : mark.level, " ");
  if (const std::string path = path_of(mark.source, options); !path.empty())
    out += concat("file=", property_text(path), ",line=", mark.line, ",col=", mark.column, ",");
  out += concat("title=", property_text(mark.rule), "::", message_text(mark.message));
  if (!mark.remedy.empty()) out += concat("; fix: ", message_text(mark.remedy));
  return out + "\n";
}

}  // namespace

std::string render_github(std::span<const Report> reports, std::span<const Problem> problems,
                          const RenderOptions& options) {
  std::string out;
  for (const Report& report : reports) out += concat(printable(report.verdict), "\n");
  const std::vector<Mark> marks = marks_of(reports, problems);
  for (const std::string_view level : {"error", "warning", "note"}) {
    std::vector<Mark> kind;
    std::ranges::copy_if(marks, std::back_inserter(kind),
                         [&](const Mark& mark) { return mark.level == level; });
    // The worst first: what stops an answer, then a verdict, then what costs most.
    const auto badness = [](const Mark& mark) {
      return mark.is_mistake ? INT64_MAX : mark.rule == kVerdictRule ? INT64_MAX - 1 : mark.bytes;
    };
    std::ranges::stable_sort(kind, std::greater{}, badness);
    const std::size_t shown = kind.size() > kMostOfAKind ? kMostOfAKind - 1 : kind.size();
    for (std::size_t i = 0; i < shown; ++i) out += command_of(kind[i], options);
    if (shown < kind.size())
      out += concat("::", level == "note" ? "notice" : level, " title=moeplan::", kind.size() - shown,
                    " more in the summary\n");
  }
  return out;
}

}  // namespace moeplan
