#include "runtime/jit/kernel_sources.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "planner/core/text.hpp"
#include "runtime/jit/digest.hpp"

namespace moeplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKernelFolder = "kernels/";

Result<std::string> read_text(std::string_view name, const RuntimeEnvironment& environment) {
  if (environment.kernel_dir && name.starts_with(kKernelFolder) &&
      name.find("..") == std::string_view::npos) {
    const fs::path path = fs::absolute(*environment.kernel_dir) / name.substr(kKernelFolder.size());
    std::error_code error;
    std::string text;
    // A pipe would wait for a writer; a text is no larger than this.
    constexpr std::uintmax_t kMostBytes = 1 << 20;
    if (fs::is_regular_file(path, error) && fs::file_size(path, error) <= kMostBytes) {
      std::ifstream file(path, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    if (text.empty())
      return Error{
          ErrorCode::kernel_source, "", concat("cannot read ", path.string(), ", a text of the kernels"),
          "MOEPLAN_KERNEL_DIR has to name a folder that holds what kernels/ of the source tree holds"};
    return text;
  }
  for (const SourceText& source : embedded_sources()) {
    if (source.name == name) return std::string(source.text);
  }
  return Error{ErrorCode::kernel_source, "", concat("no text named ", name, " is embedded in this binary"),
               "include texts by their place in the source tree, such as \"kernels/ptx.cuh\""};
}

// Names that lines `#include "NAME"` of a text mention. Error: another form, which the compiler would look up
// by itself, past the digest of the texts.
Result<std::vector<std::string>> includes_of(std::string_view name, std::string_view text) {
  constexpr std::string_view kDirective = "#include \"";
  std::vector<std::string> names;
  for (i64 number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::string directive;  // without blanks
    std::ranges::copy_if(line, std::back_inserter(directive), [](char c) { return c != ' ' && c != '\t'; });
    if (!directive.starts_with("#include") && !directive.starts_with("#import")) continue;
    const std::string_view rest = line.substr(std::min(line.size(), kDirective.size()));
    if (!line.starts_with(kDirective) || rest.find('"') == std::string_view::npos)
      return Error{ErrorCode::kernel_source, "",
                   concat(name, ":", number, ": only #include \"NAME\" is read"),
                   "include texts by their place in the source tree, such as \"kernels/ptx.cuh\""};
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
    auto included = includes_of(next, *text);
    if (!included) return included.error();
    open.insert(open.end(), included->begin(), included->end());
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
