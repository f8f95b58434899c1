// An engine's command line: flags and the environment ahead of it.
#include <algorithm>

#include "cli/import/engine_arguments.hpp"
#include "cli/import/shell.hpp"
#include "cli/import/sources.hpp"
#include "cli/import/vllm.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

struct ShortFlag {
  std::string_view flag, name;
};
constexpr ShortFlag kShortFlags[] = {
    {"-tp", "tensor_parallel_size"},   {"-pp", "pipeline_parallel_size"},
    {"-dp", "data_parallel_size"},     {"-dcp", "decode_context_parallel_size"},
    {"-ep", "enable_expert_parallel"}, {"-q", "quantization"},
    {"-sc", "speculative_config"},     {"-cc", "compilation_config"}};

// Flags with a value of ours, for "did you mean"; flags that take no value, so that the model behind one is
// seen.
constexpr std::string_view kKnown[] = {"tensor_parallel_size",
                                       "pipeline_parallel_size",
                                       "data_parallel_size",
                                       "decode_context_parallel_size",
                                       "max_num_batched_tokens",
                                       "max_num_seqs",
                                       "max_model_len",
                                       "gpu_memory_utilization",
                                       "kv_cache_dtype",
                                       "speculative_config",
                                       "compilation_config",
                                       "cudagraph_capture_sizes",
                                       "hf_overrides",
                                       "quantization",
                                       "dtype",
                                       "model"};
constexpr std::string_view kSwitches[] = {"enable_expert_parallel",
                                          "trust_remote_code",
                                          "enable_prefix_caching",
                                          "enable_chunked_prefill",
                                          "enable_auto_tool_choice",
                                          "enforce_eager",
                                          "disable_log_requests",
                                          "disable_log_stats",
                                          "async_scheduling",
                                          "disable_custom_all_reduce",
                                          "enable_dbo",
                                          "enable_eplb",
                                          "enable_force_include_usage",
                                          "enable_prompt_tokens_details",
                                          "language_model_only",
                                          "headless",
                                          "skip_mm_profiling",
                                          "enable_sleep_mode",
                                          "disable_uvicorn_access_log",
                                          "enable_return_routed_experts"};

bool is_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

class FlagReader {
 public:
  FlagReader(Import& import, const CommandText& command) : import_(import), command_(command) {}

  void read() {
    const auto& words = command_.words;
    for (std::size_t i = command_.first_flag; i < words.size();) {
      if (is_flag(words[i].text) && words[i].text != "--") {
        i = read_flag(i);
      } else if (words[i].text == "--") {
        ++i;
      } else {
        if (!saw_positional_) add("model", words[i], text_literal(words[i].text), "model");
        saw_positional_ = true;
        ++i;
      }
    }
    import_arguments(import_, arguments_);
    assume_engine_defaults(import_, command_.name);
  }

 private:
  std::string place_text(const ShellWord& word) const { return line_of(place(word)); }
  Place place(const ShellWord& word) const { return command_place(command_, word); }

  static Literal text_literal(std::string text) {
    Literal literal;
    literal.type = Literal::Type::text;
    literal.text = std::move(text);
    return literal;
  }

  // Two values of one flag: the engine takes the last.
  void add(std::string name, const ShellWord& word, Literal value, std::string_view flag) {
    for (EngineArgument& earlier : arguments_) {
      if (earlier.name != name) continue;
      if (earlier.value.text != value.text)
        import_.note(concat(flag, " is given twice, ", import_.shown(earlier.value.text), " and ",
                            import_.shown(value.text), ": the last one wins, as in the engine"));
      earlier.value = std::move(value);
      earlier.from = concat(place_text(word), " ", flag);
      earlier.place = place(word);
      return;
    }
    arguments_.push_back(
        {std::move(name), std::move(value), concat(place_text(word), " ", flag), place(word)});
  }

  std::size_t read_flag(std::size_t i) {
    const auto& words = command_.words;
    const ShellWord& word = words[i];
    const std::size_t equals = word.text.find('=');
    const std::string flag = word.text.substr(0, equals);
    std::string name = flag;
    for (const ShortFlag& row : kShortFlags) {
      if (row.flag == flag) name = row.name;
    }
    name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
    std::ranges::replace(name, '-', '_');
    std::string member;  // --speculative-config.num_speculative_tokens
    if (const auto dot = name.find('.'); dot != std::string::npos) {
      member = name.substr(dot + 1);
      name.resize(dot);
    }
    const bool is_switch =
        std::ranges::find(kSwitches, name) != std::end(kSwitches) || name.starts_with("no_");
    if (is_switch && equals == std::string::npos) {
      const bool off = name.starts_with("no_");
      Literal on;
      on.type = Literal::Type::boolean;
      on.boolean = !off;
      add(off ? name.substr(3) : name, word, std::move(on), flag);
      return i + 1;
    }
    std::size_t end = i + 1;
    std::string value;
    if (equals != std::string::npos) {
      value = word.text.substr(equals + 1);
    } else if (end < words.size() && !is_flag(words[end].text)) {
      value = words[end++].text;
      // Lists go on to the next flag.
      while (name == "cudagraph_capture_sizes" && end < words.size() && !is_flag(words[end].text))
        value += " " + words[end++].text;
    } else if (std::ranges::find(kKnown, name) != std::end(kKnown)) {
      import_.fail(ErrorCode::invalid_value, place(word), concat(flag, " has no value"),
                   concat("write ", flag, " VALUE"));
      return end;
    }
    note_typo(name, flag);
    add_value(std::move(name), member, word, std::move(value), flag);
    return end;
  }

  static ParsedLiteral parse_whole(std::string_view value) {
    auto parsed = parse_literal(value);
    if (parsed.error.empty() && value.find_first_not_of(" \t\r\n", parsed.end) != std::string::npos)
      parsed.error = "text behind it";
    return parsed;
  }

  void fail_value(const ShellWord& word, std::string_view flag, std::string_view what, std::string_view why,
                  std::string help) {
    import_.fail(ErrorCode::invalid_json, place(word), concat(flag, " is ", what, ": ", why),
                 std::move(help));
  }

  void note_typo(std::string_view name, std::string_view flag) {
    if (std::ranges::find(kKnown, name) != std::end(kKnown)) return;
    // A near miss would be refused by the engine; names that merely look alike are many.
    const auto near = did_you_mean(name, kKnown);
    if (!near || name.size() < 8 || *near == "model") return;
    std::string spelled(*near);
    std::ranges::replace(spelled, '_', '-');
    import_.note(concat(flag, " is not imported; did you mean --", spelled, "?"));
  }

  void add_value(std::string name, const std::string& member, const ShellWord& word, std::string value,
                 std::string_view flag) {
    if (!member.empty()) {
      Literal map;
      map.type = Literal::Type::map;
      const bool is_list = value.starts_with('[');
      auto parsed = is_list ? parse_whole(value) : ParsedLiteral{.value = text_literal(value)};
      if (!parsed.error.empty())
        return fail_value(word, flag, "no JSON list", parsed.error, "quote it for the shell: '[1, 2]'");
      map.members.push_back({member, std::move(parsed.value)});
      for (EngineArgument& earlier : arguments_) {
        if (earlier.name != name || earlier.value.type != Literal::Type::map) continue;
        earlier.value.members.push_back(std::move(map.members.front()));
        return;
      }
      return add(std::move(name), word, std::move(map), flag);
    }
    if (name == "cudagraph_capture_sizes") {
      if (value.starts_with('[')) {
        auto parsed = parse_whole(value);
        if (!parsed.error.empty())
          return fail_value(word, flag, "no list", parsed.error, "write the sizes alone: 1 2 4");
        parsed.value.text = value;
        return add(std::move(name), word, std::move(parsed.value), flag);
      }
      std::string list = value;
      std::ranges::replace(list, ',', ' ');
      Literal sizes;
      sizes.type = Literal::Type::list;
      sizes.text = value;
      for (std::size_t at = 0; at < list.size();) {
        const std::size_t begin = list.find_first_not_of(' ', at);
        if (begin == std::string::npos) break;
        at = std::min(list.find(' ', begin), list.size());
        sizes.items.push_back(text_literal(list.substr(begin, at - begin)));
      }
      return add(std::move(name), word, std::move(sizes), flag);
    }
    if (value.starts_with('{')) {
      auto parsed = parse_whole(value);
      if (!parsed.error.empty())
        return fail_value(word, flag, "no JSON object", parsed.error,
                          "quote it for the shell: '{\"name\": 3}'");
      parsed.value.text = value;
      return add(std::move(name), word, std::move(parsed.value), flag);
    }
    add(std::move(name), word, text_literal(std::move(value)), flag);
  }

  Import& import_;
  const CommandText& command_;
  std::vector<EngineArgument> arguments_;
  bool saw_positional_ = false;
};

bool is_shell(std::string_view word) {
  const auto name = base_name(word);
  return name == "sh" || name == "bash" || name == "dash" || name == "zsh";
}

// Where the engine's own arguments begin, or npos when the words start none.
std::size_t first_engine_flag(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i].text;
    if (base_name(word) == "vllm" && i + 1 < words.size() && words[i + 1].text == "serve") return i + 2;
    if (word == "vllm.entrypoints.openai.api_server" || base_name(word) == "api_server.py") return i + 1;
    // The image's entry point is the engine: "docker run … vllm/vllm-openai:v0.11 --model …".
    if (word.find("vllm-openai") != std::string_view::npos && !is_flag(word) && i > 0 &&
        !(i + 1 < words.size() && base_name(words[i + 1].text) == "vllm"))
      return i + 1;
  }
  return std::string::npos;
}

// "docker run -e A=b": the container's environment.
void container_variables(const std::vector<ShellWord>& words, std::size_t end,
                         std::vector<ShellVariable>& variables) {
  for (std::size_t i = 0; i + 1 < end && i + 1 < words.size(); ++i) {
    std::string text;
    if (words[i].text == "-e" || words[i].text == "--env") text = words[i + 1].text;
    if (words[i].text.starts_with("--env=")) text = words[i].text.substr(6);
    const auto equals = text.find('=');
    if (equals != std::string::npos)
      variables.push_back({text.substr(0, equals), text.substr(equals + 1), words[i].at});
  }
}

}  // namespace

Place command_place(const CommandText& command, const ShellWord& word) {
  if (command.text.empty()) return command.fixed_place.value_or(Place{.source = command.name});
  return bare_place_in(command.name, command.text, word.at);
}

bool import_command(Import& import, CommandText command, int depth) {
  // "bash -c 'vllm serve …'"
  for (std::size_t i = 0; i + 1 < command.words.size(); ++i) {
    const std::string& flag = command.words[i].text;
    if (i == 0 || !is_shell(command.words[i - 1].text) || !flag.starts_with('-') || !flag.ends_with('c'))
      continue;
    if (depth > 4) return false;
    return import_shell(import, command.name, command.words[i + 1].text, command.variables,
                        command_place(command, command.words[i + 1]), depth + 1);
  }
  const std::size_t first = first_engine_flag(command.words);
  if (first == std::string::npos) {
    if (!command.is_engine) return false;
    command.first_flag = 0;
  } else {
    command.first_flag = first;
    container_variables(command.words, first, command.variables);
  }
  std::vector<ShellVariable> last;
  for (const ShellVariable& variable : command.variables) {
    std::erase_if(last, [&](const ShellVariable& v) { return v.name == variable.name; });
    last.push_back(variable);
  }
  for (const ShellVariable& variable : last) {
    const Place place = command_place(command, {"", variable.at});
    if (!variable.exported && takes_variable(variable.name)) {
      import.note(
          concat(line_of(place), " sets ", variable.name, " without export: the engine does not see it"));
      continue;
    }
    import_variable(import, variable.name, variable.value, concat(line_of(place), " ", variable.name));
  }
  FlagReader(import, command).read();
  return true;
}

bool import_shell(Import& import, std::string_view name, std::string_view text,
                  std::vector<ShellVariable> outer, std::optional<Place> fixed_place, int depth) {
  const ShellLookup lookup = [&](std::string_view variable) -> std::optional<std::string> {
    for (auto at = outer.rbegin(); at != outer.rend(); ++at) {
      if (at->name == variable) return at->value;
    }
    if (const char* value = import.environment(variable)) return value;
    return std::nullopt;
  };
  ShellText shell = read_shell(text, lookup);
  for (const ShellVariable& variable : shell.expanded) import.hide(variable.name, variable.value);
  if (shell.problem) {
    const Place place = fixed_place.value_or(bare_place_in(name, text, shell.problem->at));
    import.fail(ErrorCode::invalid_value, place, shell.problem->message, shell.problem->help);
    return true;
  }
  int engines = 0;
  for (ShellCommand& command : shell.commands) {
    CommandText words{
        .name = name, .text = fixed_place ? std::string_view{} : text, .fixed_place = fixed_place};
    words.variables = outer;
    words.variables.insert(words.variables.end(), shell.variables.begin(),
                           shell.variables.begin() + static_cast<std::ptrdiff_t>(command.variables_ahead));
    words.variables.insert(words.variables.end(), command.variables.begin(), command.variables.end());
    words.words = std::move(command.words);
    const bool starts = first_engine_flag(words.words) != std::string::npos;
    if (starts && ++engines > 1) {
      import.fail(ErrorCode::invalid_value, command_place(words, words.words[0]),
                  "a second engine is started here", "give one command a file");
      return true;
    }
    if (!starts && engines > 0) continue;
    if (import_command(import, std::move(words), depth) && !starts) ++engines;
  }
  return engines > 0;
}

void import_vllm_text(Import& import, std::string_view name, std::string_view text) {
  if (import_shell(import, name, text, {}, std::nullopt, 0)) return;
  import.fail(ErrorCode::invalid_value, Place{.source = name, .line = 1, .column = 1},
              "no engine is started here", "a command such as: vllm serve MODEL --tensor-parallel-size 4");
}

void import_vllm(Import& import, const std::string& path) {
  bool fine = false;
  const std::string_view text = read_source(import, path, &fine);
  if (fine) import_vllm_text(import, import.keep(path == "-" ? "stdin" : path), text);
}

void import_vllm_words(Import& import, std::vector<std::string> words, std::string_view name) {
  CommandText command{.name = name};
  // The words come from a shell that has split and expanded them.
  for (std::string& word : words) {
    const auto equals = word.find('=');
    const bool is_name =
        equals != std::string::npos && equals > 0 &&
        word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == equals;
    const bool ahead = command.words.empty() || (command.words.size() == 1 && command.words[0].text == "env");
    if (is_name && ahead)
      command.variables.push_back({word.substr(0, equals), word.substr(equals + 1), 0});
    else
      command.words.push_back({std::move(word), 0});
  }
  if (!import_command(import, std::move(command), 0))
    import.fail(ErrorCode::invalid_value, Place{.source = name}, "no engine is started by these words",
                "write: moeplan import vllm -- vllm serve MODEL --tensor-parallel-size 4");
}

}  // namespace moeplan
