#include "cli/commands/outputs.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/commands/finish.hpp"
#include "cli/io/text_file.hpp"
#include "cli/render/text.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Names of standard output; a file that replaces one of them would miss whoever reads the stream.
constexpr std::string_view kStandardOutput[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};

std::string file_named(const std::string& path) {
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(path, ignored);
  const auto resolved = std::filesystem::weakly_canonical(absolute, ignored);
  return ignored ? path : resolved.string();
}

i64 size_of(const std::string& path) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  return ignored ? 0 : static_cast<i64>(size);
}

}  // namespace

std::variant<Output, std::string> parse_output(std::string_view text) {
  Output output;
  std::string_view name = text;
  if (const std::size_t equals = text.find('='); equals != std::string_view::npos) {
    output.appends = equals > 0 && text[equals - 1] == '+';
    name = text.substr(0, equals - (output.appends ? 1 : 0));
    output.path = text.substr(equals + 1);
    if (output.path.empty()) return concat("\"", text, "\" names no file behind its =");
    if (std::ranges::find(kStandardOutput, output.path) != std::end(kStandardOutput)) output.path.clear();
  }
  std::vector<std::string_view> names;
  for (const Format& format : formats()) {
    names.push_back(format.name);
    if (format.name == name) output.format = &format;
  }
  if (output.format) return output;
  const auto near = did_you_mean(name, names);
  return concat("\"", name, "\" is no format; ",
                near ? concat("did you mean ", *near, "?") : concat("formats are ", join(names, ", ")));
}

std::string conflict_of(std::span<const Output> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const std::string &one = outputs[j].path, &other = outputs[i].path;
      if (one.empty() != other.empty()) continue;
      if (one.empty())
        return concat("both ", outputs[j].format->name, " and ", outputs[i].format->name,
                      " would go to standard output; write one of them to a file: -o ",
                      outputs[i].format->name, "=PATH");
      if (file_named(one) == file_named(other)) return concat(other, " is written to twice; name two files");
    }
  }
  return "";
}

Status write_output(const Output& output, std::span<const Report> reports, std::span<const Problem> problems,
                    const RenderOptions& options) {
  RenderOptions render = options;
  if (!output.path.empty()) render.color = false;
  if (output.appends) render.most_bytes = max_of(0, render.most_bytes - size_of(output.path));
  const std::string text = output.format->render(reports, problems, render);
  if (output.path.empty()) return write_out(text);
  if (output.appends && text.empty() && !reports.empty())
    warn(concat("nothing was added to ", output.path, ": it holds what a job summary may"));
  return output.appends ? append_file(output.path, text) : write_file(output.path, text);
}

}  // namespace moeplan
