#include "cli/import/dotenv.hpp"

#include <algorithm>

#include "cli/import/engine_arguments.hpp"
#include "cli/import/sources.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::size_t kMostVariables = 1000;

// What start scripts of EXL3 images call the engine's arguments.
struct LauncherVariable {
  std::string_view variable, argument;
};
constexpr LauncherVariable kLauncherVariables[] = {{"TENSOR_PARALLEL_SIZE", "tensor_parallel_size"},
                                                   {"DCP", "decode_context_parallel_size"},
                                                   {"MAX_NUM_BATCHED_TOKENS", "max_num_batched_tokens"},
                                                   {"MAX_NUM_SEQS", "max_num_seqs"},
                                                   {"MAX_MODEL_LEN", "max_model_len"},
                                                   {"GPU_MEMORY_UTILIZATION", "gpu_memory_utilization"},
                                                   {"KV_CACHE_DTYPE", "kv_cache_dtype"},
                                                   {"MTP_TOKENS", "num_speculative_tokens"},
                                                   {"CUDAGRAPH_CAPTURE_SIZES", "cudagraph_capture_sizes"}};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool is_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') && std::ranges::all_of(text, [](char c) {
    return c == '_' || c == '.' || c == '-' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c >= '0' && c <= '9');
  });
}

// An unquoted value ends at a comment, which has a blank ahead of it.
std::string_view without_comment(std::string_view value) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '#' && (i == 0 || value[i - 1] == ' ' || value[i - 1] == '\t')) return value.substr(0, i);
  }
  return value;
}

}  // namespace

std::vector<ShellVariable> read_dotenv(Import& import, std::string_view name, std::string_view text) {
  std::vector<ShellVariable> variables;
  std::size_t expanded_bytes = 0;
  const ShellLookup lookup = [&](std::string_view wanted) -> std::optional<std::string> {
    for (auto at = variables.rbegin(); at != variables.rend(); ++at) {
      if (at->name != wanted) continue;
      import.hide(wanted, at->value);
      return at->value;
    }
    const char* value = import.environment(wanted);
    if (!value) return std::nullopt;
    import.hide(wanted, value);
    return value;
  };
  for (std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text.size();) {
    const std::size_t begin = at;
    std::size_t end = std::min(text.find('\n', at), text.size());
    at = end + 1;
    std::string_view line = trimmed(text.substr(begin, end - begin));
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("export ")) line = trimmed(line.substr(7));
    const auto equals = line.find('=');
    const std::string_view key = trimmed(line.substr(0, equals));
    if (equals == std::string_view::npos && is_name(key))
      continue;  // "NAME" alone passes the caller's value on
    if (!is_name(key)) {
      import.fail(ErrorCode::invalid_value, bare_place_in(name, text, begin), "a line without NAME=value",
                  "write NAME=value, or # ahead of a comment");
      continue;
    }
    std::string value;
    std::string_view raw = trimmed(line.substr(equals + 1));
    const char quote = raw.empty() ? '\0' : raw[0];
    if (quote == '"' || quote == '\'') {
      // May go on over several lines.
      const std::size_t open = static_cast<std::size_t>(raw.data() - text.data());
      std::size_t close = open + 1;
      while (close < text.size() && text[close] != quote)
        close += quote == '"' && text[close] == '\\' ? 2u : 1u;
      if (close >= text.size()) {
        import.fail(ErrorCode::invalid_value, bare_place_in(name, text, open), "a quote that is never closed",
                    concat("close it with ", std::string(1, quote)));
        return variables;
      }
      raw = text.substr(open + 1, close - open - 1);
      at = std::max(at, std::min(text.find('\n', close), text.size()) + 1);
    } else {
      raw = trimmed(without_comment(raw));
    }
    value = raw;
    if (quote != '\'') {
      auto expanded = expand_variables(raw, lookup, false);
      if (!expanded.error.empty()) {
        import.fail(ErrorCode::unresolved_variable, bare_place_in(name, text, begin), expanded.error,
                    expanded.help);
        continue;
      }
      value = std::move(expanded.text);
    }
    expanded_bytes += value.size();
    if (variables.size() >= kMostVariables || expanded_bytes > (std::size_t{1} << 22)) {
      import.fail(ErrorCode::too_large, bare_place_in(name, text, begin),
                  "more variables than an environment has", "split the file");
      return variables;
    }
    variables.push_back({std::string(key), std::move(value), begin});
  }
  return variables;
}

void import_env_text(Import& import, std::string_view name, std::string_view text) {
  const auto variables = read_dotenv(import, name, text);
  std::vector<EngineArgument> arguments;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const ShellVariable& variable = variables[i];
    const bool is_last =
        std::ranges::none_of(variables.begin() + static_cast<std::ptrdiff_t>(i) + 1, variables.end(),
                             [&](const ShellVariable& v) { return v.name == variable.name; });
    if (!is_last) continue;  // the last one holds
    const Place place = bare_place_in(name, text, variable.at);
    const std::string from = concat(line_of(place), " ", variable.name);
    if (import_variable(import, variable.name, variable.value, from)) continue;
    for (const LauncherVariable& row : kLauncherVariables) {
      if (row.variable != variable.name || variable.value.empty()) continue;
      const bool is_list = row.argument == "cudagraph_capture_sizes";
      ParsedLiteral list;
      const std::string listed = concat("[", variable.value, "]");
      if (is_list) list = parse_literal(listed);
      if (!list.error.empty() || (is_list && list.end != listed.size())) {
        import.fail(ErrorCode::invalid_value, place, concat(variable.name, " is no list of sizes"),
                    "write whole numbers: 1,2,4");
        continue;
      }
      Literal value = std::move(list.value);
      if (!is_list) value.type = Literal::Type::text;
      value.text = variable.value;
      arguments.push_back({std::string(row.argument), std::move(value), from, place});
    }
  }
  import_arguments(import, arguments);
}

void import_env(Import& import, const std::string& path) {
  bool fine = false;
  const std::string_view text = read_source(import, path, &fine);
  if (fine) import_env_text(import, import.keep(path == "-" ? "stdin" : path), text);
}

}  // namespace moeplan
