#include "runtime/jit/kernel_sources.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "planner/core/text.hpp"
#include "runtime/jit/digest.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kKernelFolder = "kernels/";

Result<std::string> read_text(std::string_view name, const RuntimeEnvironment& environment) {
  if (environment.kernel_dir && name.starts_with(kKernelFolder)) {
    const std::string path = concat(*environment.kernel_dir, "/", name.substr(kKernelFolder.size()));
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file.is_open() || file.bad() || text.empty())
      return Error{
          ErrorCode::kernel_source, "", concat("cannot read ", path, ", a text of the kernels"),
          "MOEPLAN_KERNEL_DIR has to name a folder that holds what kernels/ of the source tree holds"};
    return text;
  }
  for (const SourceText& source : embedded_sources()) {
    if (source.name == name) return std::string(source.text);
  }
  return Error{ErrorCode::kernel_source, "", concat("no text named ", name, " is embedded in this binary"),
               "include texts by their place in the source tree, such as \"kernels/ptx.cuh\""};
}

// Names that lines `#include "NAME"` of a text mention.
std::vector<std::string> includes_of(std::string_view text) {
  constexpr std::string_view kDirective = "#include \"";
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(kDirective)) continue;
    const std::string_view rest = line.substr(kDirective.size());
    names.emplace_back(rest.substr(0, rest.find('"')));
  }
  return names;
}

}  // namespace

Result<KernelSource> kernel_source(std::string_view name, const RuntimeEnvironment& environment) {
  std::map<std::string, std::string> texts;
  std::vector<std::string> open = {std::string(name)};
  while (!open.empty()) {
    const std::string next = std::move(open.back());
    open.pop_back();
    if (texts.contains(next)) continue;
    auto text = read_text(next, environment);
    if (!text) return text.error();
    for (std::string& included : includes_of(*text)) open.push_back(std::move(included));
    texts.emplace(next, std::move(*text));
  }

  KernelSource source;
  std::string all;
  for (const auto& [text_name, text] : texts) all += concat(text_name, "\n", text.size(), "\n", text, "\n");
  source.digest = sha256_hex(all);
  for (auto& [text_name, text] : texts) {
    if (text_name == name)
      source.main = {text_name, std::move(text)};
    else
      source.headers.push_back({text_name, std::move(text)});
  }
  return source;
}

}  // namespace moeplan
