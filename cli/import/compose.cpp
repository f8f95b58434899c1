// Compose files: one service's command and environment.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/import/dotenv.hpp"
#include "cli/import/named_file.hpp"
#include "cli/import/sources.hpp"
#include "cli/import/vllm.hpp"
#include "cli/import/yaml.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr int kDeepestExtends = 8;

// A YAML file with its name and text, kept while its places are.
struct YamlFile {
  std::string_view name;
  std::string_view text;
  YamlText yaml;

  Place place(const YamlNode& node) const { return place(node.line, node.column); }
  Place place(i64 line, i64 column) const {
    std::size_t begin = 0;
    for (i64 i = 1; i < line && begin < text.size(); ++i)
      begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::size_t at =
        std::min(begin + static_cast<std::size_t>(std::max<i64>(column - 1, 0)), text.size());
    return bare_place_in(name, text, at);
  }
};

// A service after its bases: the nodes that hold.
struct Service {
  struct Value {
    const YamlFile* file = nullptr;
    const YamlNode* node = nullptr;
  };
  Value command, entrypoint, image;
  std::vector<ShellVariable> environment;  // later entries hold
  std::vector<Place> places;               // of each
};

class ComposeReader {
 public:
  ComposeReader(Import& import, std::string folder) : import_(import), folder_(std::move(folder)) {}

  void read(std::string_view name, std::string_view text, const std::string& wanted) {
    const YamlFile* file = load(name, text);
    if (!file) return;
    if (has_named_file(folder_, ".env")) read_project_env();
    const YamlNode* services = services_of(*file);
    if (!services) return;
    const YamlMember* chosen = choose(*file, *services, wanted);
    if (!chosen) return;
    Service service;
    if (!collect(*file, file->yaml.at(chosen->value), service, 0)) return;
    run(*file, file->yaml.at(chosen->value), service, chosen->key);
  }

 private:
  void fail(ErrorCode code, Place place, std::string message, std::string help) {
    import_.fail(code, place, std::move(message), std::move(help));
  }

  const YamlFile* load(std::string_view name, std::string_view text) {
    files_.push_back(std::make_unique<YamlFile>(YamlFile{name, text, read_yaml(text)}));
    const YamlFile& file = *files_.back();
    if (file.yaml.error.empty()) return &file;
    fail(ErrorCode::invalid_value, file.place(file.yaml.error_line, file.yaml.error_column), file.yaml.error,
         file.yaml.help);
    return nullptr;
  }

  // Variables for ${NAME}: our own environment where allowed, then the project's .env.
  void read_project_env() {
    auto text = read_named_file(folder_, ".env");
    if (!text)
      return fail(text.error().code, Place{.source = ".env"}, text.error().message, text.error().help);
    project_ = read_dotenv(import_, ".env", import_.keep(std::move(*text)));
  }

  const YamlNode* services_of(const YamlFile& file) {
    const YamlNode* root = file.yaml.documents.empty() ? nullptr : &file.yaml.at(file.yaml.documents[0]);
    const YamlNode* services =
        root && root->type == YamlType::map ? file.yaml.find(*root, "services") : nullptr;
    if (services && services->type == YamlType::map && !services->members.empty()) return services;
    fail(ErrorCode::missing_field, file.place(1, 1), "no services in this file", "is this a compose file?");
    return nullptr;
  }

  static bool mentions_engine(const YamlFile& file, const YamlNode& node, int depth = 0) {
    if (node.text.find("vllm") != std::string::npos) return true;
    if (depth > 0) return false;
    return std::ranges::any_of(
        node.items, [&](YamlRef item) { return mentions_engine(file, file.yaml.at(item), depth + 1); });
  }

  const YamlMember* choose(const YamlFile& file, const YamlNode& services, const std::string& wanted) {
    std::vector<const YamlMember*> engines;
    std::vector<std::string_view> names;
    for (const YamlMember& member : services.members) {
      if (member.key == wanted) return &member;
      names.push_back(member.key);
      const YamlNode& node = file.yaml.at(member.value);
      if (node.type != YamlType::map) continue;
      for (std::string_view key : {"command", "entrypoint", "image", "extends"}) {
        const YamlNode* value = file.yaml.find(node, key);
        if (!value || (key != "extends" && !mentions_engine(file, *value))) continue;
        engines.push_back(&member);
        break;
      }
    }
    if (!wanted.empty()) {
      fail(ErrorCode::unknown_value, file.place(services), concat("no service is named ", wanted),
           concat("services here: ", join(names, ", ")));
      return nullptr;
    }
    if (engines.empty() && services.members.size() == 1) return &services.members[0];
    if (engines.size() == 1) return engines[0];
    fail(ErrorCode::invalid_value, file.place(services),
         engines.empty() ? "no service here starts an engine" : "several services may start an engine",
         concat("choose with --service: ", join(names, ", ")));
    return nullptr;
  }

  std::optional<std::string> lookup(std::string_view name) const {
    if (const char* value = import_.environment(name)) return value;
    for (auto at = project_.rbegin(); at != project_.rend(); ++at) {
      if (at->name == name) return at->value;
    }
    return std::nullopt;
  }

  // A scalar with its variables resolved; empty after a problem.
  std::optional<std::string> text_of(const YamlFile& file, const YamlNode& node) {
    if (node.type == YamlType::null) return std::string();
    if (node.type != YamlType::scalar) {
      fail(ErrorCode::wrong_type, file.place(node), "a text was expected here", "write one value");
      return std::nullopt;
    }
    auto expanded = expand_variables(
        node.text,
        [this](std::string_view name) {
          auto found = lookup(name);
          if (found) import_.hide(name, *found);
          return found;
        },
        true);
    if (expanded.error.empty()) return std::move(expanded.text);
    fail(ErrorCode::unresolved_variable, file.place(node), expanded.error, expanded.help);
    return std::nullopt;
  }

  // Bases first, so that later values replace them.
  bool collect(const YamlFile& file, const YamlNode& node, Service& service, int depth) {
    if (node.type != YamlType::map) {
      fail(ErrorCode::wrong_type, file.place(node), "a service must be a map", "");
      return false;
    }
    if (const YamlNode* extends = file.yaml.find(node, "extends")) {
      if (!collect_base(file, *extends, service, depth)) return false;
    }
    for (const auto& [key, value] :
         {std::pair{"command", &service.command}, std::pair{"entrypoint", &service.entrypoint},
          std::pair{"image", &service.image}}) {
      if (const YamlNode* found = file.yaml.find(node, key)) *value = {&file, found};
    }
    if (const YamlNode* files = file.yaml.find(node, "env_file");
        files && !collect_env_files(file, *files, service))
      return false;
    const YamlNode* environment = file.yaml.find(node, "environment");
    return !environment || collect_environment(file, *environment, service, 0);
  }

  bool collect_base(const YamlFile& file, const YamlNode& extends, Service& service, int depth) {
    if (depth >= kDeepestExtends) {
      fail(ErrorCode::too_deep, file.place(extends), "extends goes on for more than 8 services",
           "is it a circle?");
      return false;
    }
    const YamlFile* base_file = &file;
    const YamlNode* name = &extends;
    if (extends.type == YamlType::map) {
      name = file.yaml.find(extends, "service");
      if (const YamlNode* path = file.yaml.find(extends, "file")) {
        auto text = read_named_file(folder_, path->text);
        if (!text) {
          fail(text.error().code, file.place(*path), text.error().message, text.error().help);
          return false;
        }
        base_file = load(import_.keep(path->text), import_.keep(std::move(*text)));
        if (!base_file) return false;
      }
    }
    const YamlNode* services = services_of(*base_file);
    const YamlNode* base = services && name ? base_file->yaml.find(*services, name->text) : nullptr;
    if (!base) {
      fail(ErrorCode::unknown_value, file.place(extends), "extends a service that is not there",
           "name one of the file's services");
      return false;
    }
    return collect(*base_file, *base, service, depth + 1);
  }

  bool collect_env_files(const YamlFile& file, const YamlNode& node, Service& service) {
    if (node.type == YamlType::list) {
      return std::ranges::all_of(node.items, [&](YamlRef item) {
        const YamlNode& entry = file.yaml.at(item);
        if (entry.type != YamlType::map) return collect_env_file(file, entry, true, service);
        const YamlNode* path = file.yaml.find(entry, "path");
        const YamlNode* required = file.yaml.find(entry, "required");
        return !path || collect_env_file(file, *path, !required || required->text != "false", service);
      });
    }
    return collect_env_file(file, node, true, service);
  }

  bool collect_env_file(const YamlFile& file, const YamlNode& node, bool required, Service& service) {
    const auto path = text_of(file, node);
    if (!path) return false;
    if (!required && !has_named_file(folder_, *path)) return true;
    auto text = read_named_file(folder_, *path);
    if (!text) {
      fail(text.error().code, file.place(node), text.error().message, text.error().help);
      return false;
    }
    const std::string_view name = import_.keep(*path);
    const std::string_view kept = import_.keep(std::move(*text));
    for (ShellVariable& variable : read_dotenv(import_, name, kept)) {
      const Place place = bare_place_in(name, kept, variable.at);
      set(service, std::move(variable.name), std::move(variable.value), place);
    }
    return true;
  }

  static void set(Service& service, std::string name, std::string value, Place place) {
    for (std::size_t i = 0; i < service.environment.size(); ++i) {
      if (service.environment[i].name != name) continue;
      service.environment[i].value = std::move(value);
      service.places[i] = place;
      return;
    }
    service.environment.push_back({std::move(name), std::move(value), 0});
    service.places.push_back(place);
  }

  bool collect_environment(const YamlFile& file, const YamlNode& node, Service& service, int depth) {
    if (depth > 8 || ++environments_ > 1000) return true;  // merges of merges multiply
    for (YamlRef item : node.items) {
      const auto text = text_of(file, file.yaml.at(item));
      if (!text) return false;
      const auto equals = text->find('=');
      if (equals == std::string::npos)
        pass_on(file, file.yaml.at(item), *text, service);
      else
        set(service, text->substr(0, equals), text->substr(equals + 1), file.place(file.yaml.at(item)));
    }
    for (const YamlMember& member : node.members) {
      const YamlNode& value = file.yaml.at(member.value);
      if (member.key != "<<") continue;
      if (value.type == YamlType::map && !collect_environment(file, value, service, depth + 1)) return false;
      for (YamlRef item : value.items) {
        const YamlNode& merged = file.yaml.at(item);
        if (merged.type == YamlType::map && !collect_environment(file, merged, service, depth + 1))
          return false;
      }
    }
    for (const YamlMember& member : node.members) {
      if (member.key == "<<") continue;
      const YamlNode& value = file.yaml.at(member.value);
      if (value.type == YamlType::null) {
        pass_on(file, value, member.key, service);
        continue;
      }
      auto text = text_of(file, value);
      if (!text) return false;
      set(service, member.key, std::move(*text), file.place(value));
    }
    return true;
  }

  // A name without a value passes on the caller's, or the project's.
  void pass_on(const YamlFile& file, const YamlNode& node, const std::string& name, Service& service) {
    if (auto value = lookup(name)) set(service, name, std::move(*value), file.place(node));
  }

  // A command as words: texts are cut as a shell cuts them, without running one.
  bool words_of(const Service::Value& value, std::vector<ShellWord>& words, std::string& script) {
    if (!value.node) return true;
    for (YamlRef item : value.node->items) {
      auto text = text_of(*value.file, value.file->yaml.at(item));
      if (!text) return false;
      words.push_back({std::move(*text), 0});
    }
    if (value.node->type == YamlType::list) return true;
    auto text = text_of(*value.file, *value.node);
    if (!text) return false;
    script = *text;
    const ShellText shell = read_shell(script, [](std::string_view name) {
      // The container has no shell around its command: a dollar sign that is left is text.
      return std::optional<std::string>(concat("$", name));
    });
    if (shell.problem) {
      fail(ErrorCode::invalid_value, value.file->place(*value.node), shell.problem->message,
           shell.problem->help);
      return false;
    }
    for (const ShellVariable& variable : shell.expanded) import_.hide(variable.name, variable.value);
    for (const ShellCommand& command : shell.commands) {
      for (const ShellVariable& variable : command.variables)
        words.push_back({concat(variable.name, "=", variable.value), 0});
      words.insert(words.end(), command.words.begin(), command.words.end());
    }
    return true;
  }

  void run(const YamlFile& file, const YamlNode& node, const Service& service, const std::string& name) {
    std::vector<ShellWord> words, tail;
    std::string script;
    if (!words_of(service.entrypoint, words, script) || !words_of(service.command, tail, script)) return;
    words.insert(words.end(), std::make_move_iterator(tail.begin()), std::make_move_iterator(tail.end()));
    const Service::Value& origin = service.command.node ? service.command : service.entrypoint;
    CommandText command{.name = file.name, .words = std::move(words), .variables = service.environment};
    command.fixed_place = origin.node ? origin.file->place(*origin.node) : file.place(node);
    const bool image_starts_engine = service.image.node && !service.entrypoint.node &&
                                     service.image.node->text.find("vllm-openai") != std::string::npos;
    command.is_engine = image_starts_engine && !command.words.empty();
    const auto environment = service.environment;
    if (import_command(import_, std::move(command))) {
      name_variables(service);
      return;
    }
    fail(ErrorCode::invalid_value, file.place(node), concat("service ", name, " starts no engine"),
         "its command should hold: vllm serve MODEL …; or choose another with --service");
  }

  // The places of variables, which a command alone does not know.
  void name_variables(const Service& service) {
    for (ImportRow& row : import_.rows) {
      constexpr std::string_view kPrefix = "/deployment/env/";
      if (!row.pointer.starts_with(kPrefix)) continue;
      for (std::size_t i = 0; i < service.environment.size(); ++i) {
        const ShellVariable& variable = service.environment[i];
        if (variable.name == row.pointer.substr(kPrefix.size()) && json_of(variable.value) == row.json)
          row.from = concat(line_of(service.places[i]), " ", variable.name);
      }
    }
  }

  Import& import_;
  std::string folder_;
  std::vector<std::unique_ptr<YamlFile>> files_;
  std::vector<ShellVariable> project_;
  int environments_ = 0;
};

}  // namespace

void import_compose_text(Import& import, std::string_view name, std::string_view text,
                         const std::string& folder, const std::string& service) {
  ComposeReader(import, folder).read(name, text, service);
}

void import_compose(Import& import, const std::string& path, const std::string& service) {
  bool fine = false;
  const std::string_view text = read_source(import, path, &fine);
  if (!fine) return;
  std::string folder;
  if (path != "-") {
    folder = std::filesystem::path(path).parent_path().string();
    if (folder.empty()) folder = ".";
  }
  import_compose_text(import, import.keep(path == "-" ? "stdin" : path), text, folder, service);
}

}  // namespace moeplan
