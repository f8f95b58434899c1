// Reading an engine's start-up log: its arguments, its config dump and the figures it printed, each with its
// line. One pass, in constant memory; ranks may share lines, lines may be wrapped, coloured and prefixed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/import/import.hpp"
#include "cli/import/literal.hpp"

namespace moeplan {

// What a log prints, one row a pattern in engine_log.cpp.
enum class LogKey {
  model_loading,  // GiB
  available_kv,   // GiB
  kv_tokens,
  concurrency_tokens,  // tokens a request of "Maximum concurrency for"
  concurrency,         // x
  free_memory,         // GiB
  total_memory,        // GiB
  utilization,
  requested,         // GiB
  weights,           // GiB, of the summary line
  peak_activation,   // GiB
  non_torch,         // GiB
  graph_estimate,    // GiB
  graph_actual,      // GiB
  graph_difference,  // GiB
  graph_profiling_disabled,
  equivalent_utilization,
  increased_utilization,
  needed_model_len,
  needed_kv,  // GiB, of one request
  estimated_model_len,
  suggested_kv_bytes,       // to fit into requested memory
  suggested_kv_bytes_full,  // to use all memory
  ckv_lanes_memory,         // MiB
  ckv_lanes,
  mixed_tiers,  // "((3,192),(4,64))"
  mixed_form,   // "one_grid" or "serial", by the line's wording
  mixed_decode_capacity,
  mixed_prefill_capacity,
  mixed_scheduler_capacity,
  mixed_block_m,
  mixed_buffers,          // MiB
  mixed_prefill_buffers,  // MiB
  sliced_min_m,
  sliced_max_m,
  sliced_block_m,
  sliced_prefill_block_m,
  sliced_capacity,
  sliced_arena,  // MiB
  sliced_scheduler_capacity,
  sliced_chunk,
  sliced_topk,
  sms,
  trellis_bits,
  engine_version,
  none,  // a capture nobody reads
};

struct LogFigure {
  LogKey key = LogKey::none;
  std::string text;  // the printed digits, without unit and group commas
  i64 line = 0, column = 0;
};

// The figures that one line states together.
struct LogStatement {
  std::vector<LogFigure> figures;

  const LogFigure* find(LogKey key) const;
};

struct LogDump {
  Literal value;
  i64 line = 0, column = 0;
};

struct EngineLog {
  std::string name;
  i64 lines = 0;
  std::vector<LogFigure> figures;        // in order; one a distinct text of its key
  std::vector<LogStatement> statements;  // in order; one a distinct set of texts
  std::optional<LogDump> arguments;      // "non-default args"
  std::optional<LogDump> config;         // "with config"
  int starts = 0;                        // config dumps seen
  std::vector<Problem> problems;  // cut or unreadable dumps, two engines in one log; places name the log
  std::vector<std::string> notes;

  // All distinct figures of a key, and the first; null when the log stopped before or never prints it.
  std::vector<const LogFigure*> all(LogKey key) const;
  const LogFigure* first(LogKey key) const;
  // The smallest or largest of a key's decimals.
  const LogFigure* smallest(LogKey key) const;
  const LogFigure* largest(LogKey key) const;
};

// Where a terminal's escape sequence stands.
enum class Escape { none, begun, control, text, text_end };

// Fed piece by piece, so that the size of a log does not matter.
class EngineLogReader {
 public:
  explicit EngineLogReader(std::string name);
  void feed(std::string_view piece);
  // No more is read: the log has a line without end.
  bool is_refused() const { return is_refused_; }
  EngineLog finish();

 private:
  void take_lines(bool at_end);
  void put(std::string_view part);
  void scan(bool at_end);
  std::size_t number_at(std::size_t statement, std::size_t at, bool is_last) const;
  void match(std::size_t at);
  void read_dump(std::size_t at, bool is_arguments);
  void note_statement(LogStatement statement);
  void note_figure(LogKey key, std::string text, std::size_t at);
  void fail(std::size_t at, ErrorCode code, std::string message, std::string help);

  EngineLog log_;
  std::string pending_;  // of a line whose end is not there yet
  bool at_line_start_ = true;
  bool is_refused_ = false;
  Escape escape_ = Escape::none;
  i64 line_ = 1;
  i64 column_ = 1;
  std::size_t line_bytes_ = 0;
  // The window: the log without blanks, colours, prefixes and line ends, so that wrapping does not matter.
  std::string text_;
  std::vector<std::uint32_t> lines_, columns_;  // of each byte of it
  std::string arguments_text_;                  // of the first dump, to tell another engine from a restart
};

// The log at `path`, or standard input for "-".
Result<EngineLog> read_engine_log(const std::string& path);

// Rows of a log: settings, then measured figures. Also assumes the device by its total memory.
void import_engine_log(Import& import, const EngineLog& log);

}  // namespace moeplan
