// The engine's settings alone, to paste: flags of a command line, or assignments of a shell.
#include "cli/io/shell_word.hpp"
#include "cli/render/render.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::string lines_of(std::span<const Report> reports, EngineSettingKind kind, std::string_view between) {
  std::string out;
  for (const Report& report : reports) {
    for (const EngineSetting& setting : report.engine) {
      if (setting.kind == kind) out += concat(setting.name, between, shell_word(setting.value), "\n");
    }
  }
  // A comment, so that nothing can be told from an answer that got lost.
  return out.empty() ? "# the config states none\n" : out;
}

}  // namespace

std::string render_flags(std::span<const Report> reports, std::span<const Problem>, const RenderOptions&) {
  return lines_of(reports, EngineSettingKind::flag, " ");
}

std::string render_env(std::span<const Report> reports, std::span<const Problem>, const RenderOptions&) {
  return lines_of(reports, EngineSettingKind::variable, "=");
}

}  // namespace moeplan
