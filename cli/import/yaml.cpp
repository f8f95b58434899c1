#include "cli/import/yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <sstream>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostNodes = 200'000;
constexpr int kMostAliases = 1000;

struct Refusal {
  std::string message;
  std::string help;
  YAML::Mark mark;
};

// Builds nodes from the parser's events: the library's own tree would follow aliases without a bound.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(YamlText& out) : out_(out) { out_.nodes.emplace_back(); }

  void OnDocumentStart(const YAML::Mark&) override { anchors_.clear(); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { place(make(mark, anchor), mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (++aliases_ > kMostAliases)
      throw Refusal{concat("more than ", kMostAliases, " aliases"), "write the values out", mark};
    const auto at = anchors_.find(anchor);
    if (at == anchors_.end()) throw Refusal{"an alias of nothing", "anchor it first: &name", mark};
    for (const YamlRef open : open_) {
      if (open == at->second) throw Refusal{"an alias inside its own anchor", "write the value out", mark};
    }
    place(at->second, mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const YamlRef ref = make(mark, anchor);
    YamlNode& node = out_.nodes[ref];
    node.quoted = tag == "!";
    const bool is_null = !node.quoted && (value.empty() || value == "~" || value == "null");
    node.type = is_null ? YamlType::null : YamlType::scalar;
    node.text = value;
    place(ref, mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlType::list, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlType::map, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  YamlRef make(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (out_.nodes.size() >= kMostNodes)
      throw Refusal{"more values than a deployment has", "split the file", mark};
    const auto ref = static_cast<YamlRef>(out_.nodes.size());
    out_.nodes.emplace_back();
    out_.nodes.back().line = mark.line + 1;
    out_.nodes.back().column = mark.column + 1;
    if (anchor) anchors_[anchor] = ref;
    return ref;
  }

  void open(YamlType type, const YAML::Mark& mark, YAML::anchor_t anchor) {
    const YamlRef ref = make(mark, anchor);
    out_.nodes[ref].type = type;
    place(ref, mark);
    open_.push_back(ref);
    keys_.emplace_back();
    if (open_.size() > kDeepest) throw Refusal{"nested deeper than 64 levels", "flatten it", mark};
  }
  void close() {
    open_.pop_back();
    keys_.pop_back();
  }

  // Hands a value to the collection it stands in; in a map every other value is a key.
  void place(YamlRef ref, const YAML::Mark& mark) {
    if (open_.empty()) return out_.documents.push_back(ref);
    YamlNode& parent = out_.nodes[open_.back()];
    if (parent.type == YamlType::list) return parent.items.push_back(ref);
    auto& key = keys_.back();
    if (!key.is_set) {
      const YamlNode& node = out_.nodes[ref];
      if (node.type == YamlType::list || node.type == YamlType::map)
        throw Refusal{"a key that is no text", "write name: value", mark};
      for (const YamlMember& member : parent.members) {
        if (member.key == node.text && node.text != "<<")
          throw Refusal{concat("\"", node.text, "\" stands twice here"), "leave one out", mark};
      }
      if (parent.members.size() >= 4096) throw Refusal{"a map of more than 4,096 keys", "", mark};
      key = {node.text, true};
      return;
    }
    parent.members.push_back({std::move(key.text), ref});
    key = {};
  }

  struct Key {
    std::string text;
    bool is_set = false;
  };

  YamlText& out_;
  std::vector<YamlRef> open_;
  std::vector<Key> keys_;  // one an open collection
  std::map<YAML::anchor_t, YamlRef> anchors_;
  int aliases_ = 0;
};

const YamlNode* find_merged(const YamlText& text, const YamlNode& map, std::string_view key, int& steps) {
  // Merges of merges multiply; a deployment has a handful.
  if (++steps > kMostAliases) return nullptr;
  for (const YamlMember& member : map.members) {
    if (member.key == key)
      return text.at(member.value).type == YamlType::null ? nullptr : &text.at(member.value);
  }
  for (const YamlMember& member : map.members) {
    if (member.key != "<<") continue;
    const YamlNode& merged = text.at(member.value);
    if (merged.type == YamlType::map) {
      if (const YamlNode* node = find_merged(text, merged, key, steps)) return node;
    }
    for (YamlRef item : merged.items) {
      if (text.at(item).type != YamlType::map) continue;
      if (const YamlNode* node = find_merged(text, text.at(item), key, steps)) return node;
    }
  }
  return nullptr;
}

}  // namespace

const YamlNode* YamlText::find(const YamlNode& map, std::string_view key) const {
  int steps = 0;
  return find_merged(*this, map, key, steps);
}

YamlText read_yaml(std::string_view text) {
  YamlText out;
  const auto fail = [&](std::string message, std::string help, const YAML::Mark& mark) {
    out.error = std::move(message);
    out.help = std::move(help);
    out.error_line = mark.line + 1;
    out.error_column = mark.column + 1;
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(out);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal& refusal) {
    fail(refusal.message, refusal.help, refusal.mark);
  } catch (const YAML::Exception& error) {
    fail(error.msg, "check indentation, quotes and colons", error.mark);
  } catch (const std::exception& error) {
    fail(error.what(), "is this YAML?", YAML::Mark::null_mark());
  }
  return out;
}

}  // namespace moeplan
