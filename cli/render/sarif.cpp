// Reports as SARIF 2.1.0: a result for each finding, for a verdict of no, and for each mistake of a config.
#include <map>

#include "cli/build_info.hpp"
#include "cli/io/json_writer.hpp"
#include "cli/render/marks.hpp"
#include "cli/render/render.hpp"
#include "cli/word_meanings.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// RFC 3986: everything but unreserved characters and the slashes between folders.
std::string percent_encoded(std::string_view path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  constexpr std::string_view kUnreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string out;
  for (char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (kUnreserved.find(c) != std::string_view::npos)
      out += c;
    else
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

std::string uri_of(const Mark& mark, const RenderOptions& options) {
  const std::string path = path_of(mark.source, options);
  // What is no file keeps its name: a result needs some place.
  if (path.empty()) return percent_encoded(mark.source);
  return concat(path.starts_with('/') ? "file://" : "", percent_encoded(path));
}

// FNV-1a, 64 bits: the same everywhere, for telling findings apart and nothing else.
std::string fingerprint_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kHex[hash >> shift & 15];
  return out;
}

// What a rule means, in short and in full: a policy rule's title and what fires it, else the meaning of its
// word.
struct Meaning {
  std::string brief, full, help;
};
Meaning meaning_of(std::string_view rule) {
  const WordMeaning* word = meaning_of_word(rule);
  if (!word) return {std::string(rule), std::string(rule), std::string(rule)};
  if (!word->rule) return {word->meaning, word->meaning, word->meaning};
  const PolicyRule& row = *word->rule;
  return {word->meaning, concat("Fires when ", row.fires),
          row.remedy.empty() ? concat("moeplan help ", rule) : std::string(row.remedy)};
}

void write_text(JsonWriter& json, std::string_view key, std::string_view text) {
  json.key(key).begin_object().member("text", text).end_object();
}

void write_rule(JsonWriter& json, const Mark& mark) {
  const Meaning meaning = meaning_of(mark.rule);
  json.begin_object();
  json.member("id", mark.rule);
  write_text(json, "shortDescription", meaning.brief);
  write_text(json, "fullDescription", meaning.full);
  write_text(json, "help", meaning.help);
  json.key("defaultConfiguration").begin_object().member("level", mark.level).end_object();
  json.end_object();
}

void write_location(JsonWriter& json, const Mark& mark, const std::string& uri) {
  json.begin_object();
  json.key("physicalLocation").begin_object();
  json.key("artifactLocation").begin_object();
  json.member("uri", uri);
  if (!uri.starts_with("file://")) json.member("uriBaseId", "%SRCROOT%");
  json.end_object();
  json.key("region").begin_object();
  json.member("startLine", mark.line).member("startColumn", mark.column);
  json.end_object();
  json.end_object();
  if (!mark.pointer.empty()) {
    json.key("logicalLocations").begin_array();
    json.begin_object().member("fullyQualifiedName", mark.pointer).end_object();
    json.end_array();
  }
  json.end_object();
}

}  // namespace

std::string render_sarif(std::span<const Report> reports, std::span<const Problem> problems,
                         const RenderOptions& options) {
  const std::vector<Mark> marks = marks_of(reports, problems);
  std::map<std::string, i64> rules;  // index of each
  std::vector<const Mark*> rule_marks;
  for (const Mark& mark : marks) {
    if (rules.try_emplace(mark.rule, static_cast<i64>(rules.size())).second) rule_marks.push_back(&mark);
  }

  std::string out;
  JsonWriter json(out, JsonWriter::Style::indented);
  json.begin_object();
  json.member("$schema", "https://json.schemastore.org/sarif-2.1.0.json");
  json.member("version", "2.1.0");
  json.key("runs").begin_array().begin_object();
  json.key("tool").begin_object().key("driver").begin_object();
  json.member("name", "moeplan").member("version", kBuildInfo.version);
  json.key("rules").begin_array();
  for (const Mark* mark : rule_marks) write_rule(json, *mark);
  json.end_array().end_object().end_object();
  json.member("columnKind", "unicodeCodePoints");
  json.key("results").begin_array();
  std::map<std::string, i64> seen;
  for (const Mark& mark : marks) {
    const std::string uri = uri_of(mark, options);
    // Neither line nor message: a finding stays the same while figures and lines around it change.
    const std::string identity = concat(mark.rule, "\n", uri, "\n", mark.pointer);
    json.begin_object();
    json.member("ruleId", mark.rule).member("ruleIndex", rules.at(mark.rule));
    json.member("level", mark.level);
    write_text(json, "message",
               mark.remedy.empty() ? mark.message : concat(mark.message, "; fix: ", mark.remedy));
    // What was asked on the command line alone stands in no file.
    if (!uri.empty()) {
      json.key("locations").begin_array();
      write_location(json, mark, uri);
      json.end_array();
    }
    json.key("partialFingerprints").begin_object();
    json.member("moeplan/v1", concat(fingerprint_of(identity), ":", ++seen[identity]));
    json.end_object();
    json.key("properties").begin_object().member("bytes", mark.bytes).end_object();
    json.end_object();
  }
  json.end_array().end_object().end_array();
  json.end_object();
  out += '\n';
  return out;
}

}  // namespace moeplan
