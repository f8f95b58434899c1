// An import: values of a config found in what is deployed, each with the place it was read from. Sources add
// rows; settle() picks one row a field; write_config() makes the config. Nothing is guessed: what no source
// states is missing.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/io/fields.hpp"
#include "planner/core/integer.hpp"

namespace moeplan {

enum class RowKind { imported, assumed, measured };
std::string_view name_of(RowKind kind);

// Which statement wins when several sources state a field: the first. Equal ranks must agree.
enum class Rank { command_line, engine, checkpoint, assumed };

struct ImportRow {
  std::string pointer;  // JSON pointer in our config
  std::string json;     // the value
  std::string from;     // "serve.sh:3 --max-num-seqs", "config.json:7 hidden_size"
  RowKind kind = RowKind::imported;
  Rank rank = Rank::engine;
  bool must_agree = false;  // a shape assumed from the model's name may not differ
};

// A field that has to be stated and is not.
struct Missing {
  std::string pointer;
  std::string remedy;
};

struct Import {
  std::vector<ImportRow> rows;
  std::vector<std::string> notes;
  std::vector<Problem> problems;
  std::string model_name;                  // as the deployment names it; may be a path
  std::string model_from;                  // where
  std::string engine;                      // the engine's build, if a source shows it
  std::vector<std::string> allowed_names;  // of our own environment, which ${NAME} may read

  void add(ImportRow row) { rows.push_back(std::move(row)); }
  void note(std::string text) { notes.push_back(std::move(text)); }
  // Notes a mistake. `place` may be built from keep().
  void fail(ErrorCode code, Place place, std::string message, std::string help);
  // Keeps a text as long as the import: places point into their sources.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }
  // Remembers a variable's value, which no message may repeat.
  void hide(std::string_view name, std::string_view value) {
    if (!value.empty()) hidden_.try_emplace(std::string(value), name);
  }
  // A value as messages show it: in quotes, or by the variable it came from.
  std::string shown(std::string_view value) const;
  // The value of NAME in our own environment, when allowed and set.
  const char* environment(std::string_view name) const;

 private:
  std::deque<std::string> kept_;
  std::map<std::string, std::string> hidden_;  // values, each with its variable
};

// Line and column of byte `at` of `text`.
Place place_in(std::string_view source, std::string_view text, std::size_t at);
// The same without the line itself: scripts, environments and manifests hold secrets beside what is wrong.
Place bare_place_in(std::string_view source, std::string_view text, std::size_t at);
// The part of a path behind its folders.
std::string_view base_name(std::string_view path);
// "file:3"
std::string line_of(const Place& place);

std::string json_of(std::string_view text);
std::string json_of(i64 number);
std::string json_of(bool truth);

// One row a pointer, in the order of the config's tables; contradictions become problems.
void settle(Import& import);
const ImportRow* find_row(const Import& import, std::string_view pointer);
// Fields that planning needs and no row states.
std::vector<Missing> missing_fields(const Import& import);

// The config, moeplan.config/1, with "x-provenance". The import must be settled.
std::string write_config(const Import& import);
// The same rows for people.
std::string provenance_table(const Import& import);

}  // namespace moeplan
