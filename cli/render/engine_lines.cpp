// The engine's settings alone, to paste: flags of a command line, or assignments of a shell.
#include "cli/render/render.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// As one word of a POSIX shell.
std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

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
