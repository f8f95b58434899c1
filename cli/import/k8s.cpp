// Kubernetes manifests: the engine's container of one workload.
#include <algorithm>

#include "cli/import/sources.hpp"
#include "cli/import/vllm.hpp"
#include "cli/import/yaml.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

struct Kind {
  std::string_view kind;
  std::vector<std::string_view> pod_path;  // from the document to the pod's spec
};

const Kind kKinds[] = {
    {"Deployment", {"spec", "template", "spec"}},
    {"StatefulSet", {"spec", "template", "spec"}},
    {"Job", {"spec", "template", "spec"}},
    {"Pod", {"spec"}},
    {"LeaderWorkerSet", {"spec", "leaderWorkerTemplate", "leaderTemplate", "spec"}},
    // Without a leader of its own, the leader is a worker.
    {"LeaderWorkerSet", {"spec", "leaderWorkerTemplate", "workerTemplate", "spec"}},
};

class K8sReader {
 public:
  K8sReader(Import& import, std::string_view name, std::string_view text)
      : import_(import), name_(name), text_(text), yaml_(read_yaml(text)) {}

  void read(const std::string& wanted) {
    if (!yaml_.error.empty())
      return import_.fail(ErrorCode::invalid_value, place(yaml_.error_line, yaml_.error_column), yaml_.error,
                          yaml_.help);
    struct Workload {
      std::string_view name;
      const YamlNode* pod;
    };
    std::vector<Workload> workloads;
    std::vector<std::string_view> kinds, names;
    for (YamlRef ref : yaml_.documents) {
      const YamlNode& document = yaml_.at(ref);
      const YamlNode* kind = document.type == YamlType::map ? yaml_.find(document, "kind") : nullptr;
      if (!kind) continue;
      kinds.push_back(kind->text);
      const YamlNode* metadata = yaml_.find(document, "metadata");
      const YamlNode* label =
          metadata && metadata->type == YamlType::map ? yaml_.find(*metadata, "name") : nullptr;
      const YamlNode* pod = pod_of(document, kind->text);
      if (!pod) continue;
      names.push_back(label ? std::string_view(label->text) : "");
      if (wanted.empty() || names.back() == wanted) workloads.push_back({names.back(), pod});
    }
    if (workloads.empty())
      return import_.fail(ErrorCode::missing_field, place(1, 1),
                          wanted.empty() ? concat("no workload here",
                                                  kinds.empty() ? "" : concat("; kinds: ", join(kinds, ", ")))
                                         : concat("no workload is named ", wanted),
                          names.empty() ? "a Deployment, StatefulSet, LeaderWorkerSet, Job or Pod is read"
                                        : concat("workloads here: ", join(names, ", ")));
    if (workloads.size() > 1)
      return import_.fail(ErrorCode::invalid_value, place(1, 1), "several workloads in this file",
                          concat("choose with --service: ", join(names, ", ")));
    read_pod(*workloads[0].pod);
  }

 private:
  Place place(i64 line, i64 column) const {
    std::size_t begin = 0;
    for (i64 i = 1; i < line && begin < text_.size(); ++i)
      begin = std::min(text_.find('\n', begin), text_.size() - 1) + 1;
    const std::size_t at =
        std::min(begin + static_cast<std::size_t>(std::max<i64>(column - 1, 0)), text_.size());
    return bare_place_in(name_, text_, at);
  }
  Place place(const YamlNode& node) const { return place(node.line, node.column); }

  const YamlNode* pod_of(const YamlNode& document, std::string_view kind) const {
    for (const Kind& row : kKinds) {
      if (row.kind != kind) continue;
      const YamlNode* node = &document;
      for (std::string_view key : row.pod_path)
        node = node && node->type == YamlType::map ? yaml_.find(*node, key) : nullptr;
      if (node && node->type == YamlType::map && yaml_.find(*node, "containers")) return node;
    }
    return nullptr;
  }

  void read_pod(const YamlNode& pod) {
    const YamlNode* containers = yaml_.find(pod, "containers");
    for (YamlRef ref : containers->items) {
      const YamlNode& container = yaml_.at(ref);
      if (container.type == YamlType::map && read_container(container)) return;
    }
    if (!import_.problems.empty()) return;
    import_.fail(ErrorCode::invalid_value, place(*containers), "no container here starts an engine",
                 "its command or args should hold: vllm serve MODEL …");
  }

  // "$(NAME)" is the container's variable; "$$(NAME)" is text.
  std::string expanded(std::string_view text, const std::vector<ShellVariable>& variables) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '$' && at + 1 < text.size() && text[at + 1] == '$') {
        out += '$';
        ++at;
        continue;
      }
      const std::size_t end = text.substr(at).starts_with("$(") ? text.find(')', at) : std::string_view::npos;
      const std::string_view name = end == std::string_view::npos ? "" : text.substr(at + 2, end - at - 2);
      const auto found = std::find_if(variables.rbegin(), variables.rend(), [&](const ShellVariable& v) {
        return !name.empty() && v.name == name;
      });
      if (found == variables.rend()) {
        out += text[at];
        continue;
      }
      import_.hide(found->name, found->value);
      if (out.size() < (std::size_t{1} << 20)) out += found->value;
      at = end;
    }
    return out;
  }

  bool read_container(const YamlNode& container) {
    CommandText command{.name = name_};
    std::vector<Place> places;
    std::size_t bytes = 0;
    if (const YamlNode* env = yaml_.find(container, "env")) {
      for (YamlRef ref : env->items) {
        const YamlNode& entry = yaml_.at(ref);
        if (entry.type != YamlType::map) continue;
        const YamlNode* name = yaml_.find(entry, "name");
        const YamlNode* value = yaml_.find(entry, "value");
        if (!name || !value || bytes > (std::size_t{1} << 20)) continue;  // valueFrom: not in this file
        command.variables.push_back({name->text, expanded(value->text, command.variables), 0});
        bytes += command.variables.back().value.size();
        places.push_back(place(*value));
      }
    }
    const YamlNode* origin = &container;
    for (std::string_view key : {"command", "args"}) {
      const YamlNode* words = yaml_.find(container, key);
      if (!words) continue;
      origin = words;
      for (YamlRef ref : words->items) {
        const YamlNode& word = yaml_.at(ref);
        if (word.type == YamlType::scalar)
          command.words.push_back({expanded(word.text, command.variables), 0});
      }
    }
    const YamlNode* image = yaml_.find(container, "image");
    const YamlNode* own_command = yaml_.find(container, "command");
    command.is_engine = image && !own_command && image->text.find("vllm-openai") != std::string::npos &&
                        !command.words.empty();
    command.fixed_place = place(*origin);
    const auto variables = command.variables;
    const std::size_t before = import_.rows.size();
    if (!import_command(import_, std::move(command))) return false;
    for (std::size_t i = before; i < import_.rows.size(); ++i) {
      for (std::size_t j = 0; j < variables.size(); ++j) {
        if (import_.rows[i].pointer == concat("/deployment/env/", variables[j].name))
          import_.rows[i].from = concat(line_of(places[j]), " ", variables[j].name);
      }
    }
    return true;
  }

  Import& import_;
  std::string_view name_;
  std::string_view text_;
  YamlText yaml_;
};

}  // namespace

void import_k8s_text(Import& import, std::string_view name, std::string_view text,
                     const std::string& object) {
  K8sReader(import, name, text).read(object);
}

void import_k8s(Import& import, const std::string& path, const std::string& object) {
  bool fine = false;
  const std::string_view text = read_source(import, path, &fine);
  if (fine) import_k8s_text(import, import.keep(path == "-" ? "stdin" : path), text, object);
}

}  // namespace moeplan
