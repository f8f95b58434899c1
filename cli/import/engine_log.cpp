#include "cli/import/engine_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cli/io/decimal.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::size_t kLookahead = std::size_t{256} << 10;  // longest dump
constexpr std::size_t kWindow = std::size_t{1} << 20;
constexpr std::size_t kLongestLinePart = std::size_t{64} << 10;
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr std::size_t kMostFigures = 10'000;

using enum LogKey;

// What is printed, without blanks: '#' is a number, '@' a short text. One key a capture. What follows a
// number tells where it ends, even when it is wrapped; a number that ends its pattern ends with its line.
struct LogPattern {
  std::string_view text;
  std::array<LogKey, 9> keys;
};

constexpr LogPattern kPatterns[] = {
    {"Modelloadingtook#GiB", {model_loading}},
    {"AvailableKVcachememory:#GiB", {available_kv}},
    {"GPUKVcachesize:#tokens", {kv_tokens}},
    {"Maximumconcurrencyfor#tokensperrequest:#x", {concurrency_tokens, concurrency}},
    {"Freememoryondevice(#/#GiB)onstartup", {free_memory, total_memory}},
    {"Freememoryondevicecuda:#(#/#GiB)onstartup", {none, free_memory, total_memory}},
    {"DesiredGPUmemoryutilizationis(#,#GiB)", {utilization, requested}},
    {"desiredGPUmemoryutilization(#,#GiB)", {utilization, requested}},
    {"Actualusageis#GiBforweight,#GiBforpeakactivation,#GiBfornon-torchmemory,and#GiBforCUDAGraphmemory",
     {weights, peak_activation, non_torch, graph_actual}},
    {"EstimatedCUDAgraphmemory:#GiB", {graph_estimate}},
    {"EstimatedMRV2CUDAgraphmemory:#GiB", {graph_estimate}},
    {"CUDAgraphpoolmemory:#GiB(actual),#GiB(estimated),difference:#GiB",
     {graph_actual, graph_estimate, graph_difference}},
    {"CUDAgraphpoolmemory:#GiB(actual),#GiB(estimated)", {graph_actual, graph_estimate}},
    {"Graphcapturingfinishedin#secs,took#GiB", {none, graph_actual}},
    {"CUDAgraphmemoryprofilingisdisabled", {graph_profiling_disabled}},
    {"Thecurrent--gpu-memory-utilization=#isequivalentto--gpu-memory-utilization=#without",
     {utilization, equivalent_utilization}},
    {"Thecurrent--gpu-memory-utilization=#isequivalentto--gpu-memory-utilization=#",
     {utilization, equivalent_utilization}},
    {"increase--gpu-memory-utilizationto#.To", {increased_utilization}},
    {"increase--gpu-memory-utilizationto#", {increased_utilization}},
    {"increasing--gpu-memory-utilizationfrom#to#", {utilization, increased_utilization}},
    {"maxseqlen(#),(#GiBKVcacheisneeded", {needed_model_len, needed_kv}},
    {"largerthantheavailableKVcachememory(#GiB)", {available_kv}},
    {"estimatedmaximummodellengthis#.Try", {estimated_model_len}},
    {"estimatedmaximummodellengthis#", {estimated_model_len}},
    {"`--kv-cache-memory-bytes=#`(#GiB)tofitintorequestedmemory", {suggested_kv_bytes, none}},
    {"`--kv-cache-memory-bytes=#`(#GiB)tofullyutilize", {suggested_kv_bytes_full, none}},
    {"Preallocated#MiBfor#persistentCKVexecutionlane", {ckv_lanes_memory, ckv_lanes}},
    {"EXL3mixedTrellisruntimeplanned:tiers=@decode_capacity=#prefill_capacity=#scheduler_capacity=#buffers=#"
     "MiB",
     {mixed_tiers, mixed_decode_capacity, mixed_prefill_capacity, mixed_scheduler_capacity, mixed_buffers}},
    {"EXL3mixedTrellisruntimeplanned:tiers=@one-griddecode=#serialprefill=#scheduler=#block_m=#buffers=#+#"
     "MiB",
     {mixed_tiers, mixed_decode_capacity, mixed_prefill_capacity, mixed_scheduler_capacity, mixed_block_m,
      mixed_buffers, mixed_prefill_buffers}},
    {"EXL3rank-slicedruntimeplanned:Trellism=#..#block_m=#,prefilltrellisblock_m=#capacity=#arena=#MiB"
     "scheduler_capacity=#chunk=#topk=#",
     {sliced_min_m, sliced_max_m, sliced_block_m, sliced_prefill_block_m, sliced_capacity, sliced_arena,
      sliced_scheduler_capacity, sliced_chunk, sliced_topk}},
    {"'sms':#,", {sms}},
    {"'trellis_bits':#,", {trellis_bits}},
    {"InitializingaV1LLMengine(@)withconfig:", {engine_version}},
    {"non-defaultargs:{", {}},
};
constexpr std::string_view kConfigPattern = "InitializingaV1LLMengine(";
constexpr std::string_view kArgumentsPattern = "non-defaultargs:{";

// Which two bytes start a pattern: all other places are passed over at once.
const std::vector<bool>& starts() {
  static const auto kStarts = [] {
    std::vector<bool> table(1 << 16, false);
    for (const LogPattern& pattern : kPatterns)
      table[static_cast<std::size_t>(static_cast<unsigned char>(pattern.text[0])) << 8 |
            static_cast<unsigned char>(pattern.text[1])] = true;
    return table;
  }();
  return kStarts;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Digits with group commas and at most one point that digits follow; 0 when there are none.
std::size_t number_size(std::string_view text) {
  std::size_t i = 0;
  bool point = false;
  const auto digit = [&](std::size_t at) { return at < text.size() && is_digit(text[at]); };
  while (digit(i)) {
    ++i;
    if (i < text.size() && text[i] == '.' && !point && digit(i + 1)) {
      point = true;
      ++i;
    } else if (i < text.size() && text[i] == ',' && !point && digit(i + 1) && digit(i + 2) && digit(i + 3) &&
               !digit(i + 4)) {
      ++i;
    }
  }
  return i;
}

// "(Worker_TP0_DCP0 pid=350) ", "vllm-1  | " and time stamps that log collectors put ahead of every line.
std::size_t prefix_size(std::string_view line) {
  std::size_t at = 0;
  for (;;) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
    const std::string_view rest = line.substr(at, 128);
    if (rest.starts_with('(')) {
      const auto close = rest.find(')');
      const auto pid = rest.find(" pid=");
      if (close == std::string_view::npos || pid == std::string_view::npos || pid > close) return at;
      at += close + 1;
      continue;
    }
    std::size_t word = 0;
    while (word < rest.size() &&
           (is_word(rest[word]) || rest[word] == '-' || rest[word] == '.' || rest[word] == ':'))
      ++word;
    if (word == 0) return at;
    std::size_t bar = word;
    while (bar < rest.size() && rest[bar] == ' ') ++bar;
    const bool is_service = bar > word && rest.substr(bar).starts_with("| ");
    const bool is_time =
        word >= 20 && rest[4] == '-' && rest[7] == '-' && rest[10] == 'T' && rest[13] == ':' && bar > word;
    if (!is_service && !is_time) return at;
    at += is_service ? bar + 1 : word;
  }
}

// A terminal's sequences: ESC [ parameters letter; ESC ] and its kin up to BEL or ESC \; ESC and one
// character, which intermediate ones may stand ahead of.
Escape escape_after(Escape escape, char c) {
  switch (escape) {
    case Escape::none:
      return c == '\x1b' ? Escape::begun : Escape::none;
    case Escape::begun:
      if (c == '[') return Escape::control;
      if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_') return Escape::text;
      return c >= ' ' && c <= '/' ? Escape::begun : Escape::none;
    case Escape::control:
      return c >= '@' && c <= '~' ? Escape::none : Escape::control;
    case Escape::text:
      return c == '\x1b' ? Escape::text_end : c == '\a' ? Escape::none : Escape::text;
    case Escape::text_end:
      return c == '\x1b' ? Escape::text_end : c == '\\' ? Escape::none : Escape::text;
  }
  return Escape::none;
}

}  // namespace

EngineLogReader::EngineLogReader(std::string name) { log_.name = std::move(name); }

void EngineLogReader::feed(std::string_view piece) {
  if (is_refused_) return;
  pending_ += piece;
  take_lines(false);
  if (text_.size() > kWindow) scan(false);
}

void EngineLogReader::take_lines(bool at_end) {
  std::size_t at = 0;
  for (;;) {
    const std::string_view rest = std::string_view(pending_).substr(at);
    const std::size_t end = rest.find('\n');
    const bool has_end = end != std::string_view::npos;
    if (!has_end && !at_end && rest.size() < kLongestLinePart) break;
    if (!has_end && rest.empty()) break;
    std::string_view part = rest.substr(0, end);
    at += part.size() + (has_end ? 1 : 0);
    line_bytes_ += part.size();
    if (line_bytes_ > kLongestLine) {
      log_.problems.push_back(
          {Error{ErrorCode::too_large, "", concat("a line of more than ", kLongestLine >> 20, " MiB"),
                 "is this a log?"},
           Place{.source = {}, .line = line_, .column = 1}});
      is_refused_ = true;
      pending_.clear();
      return;
    }
    if (at_line_start_) {
      const std::size_t skip = prefix_size(part);
      column_ += static_cast<i64>(skip);
      part.remove_prefix(skip);
    }
    put(part);
    at_line_start_ = has_end;
    if (has_end) {
      ++line_;
      column_ = 1;
      line_bytes_ = 0;
      escape_ = Escape::none;
    }
  }
  pending_.erase(0, at);
}

void EngineLogReader::put(std::string_view part) {
  const std::size_t begin = text_.size();
  text_.resize(begin + part.size());
  lines_.resize(text_.size());
  columns_.resize(text_.size());
  std::size_t out = begin;
  for (char c : part) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++column_;
    if (escape_ != Escape::none || c == '\x1b') {
      escape_ = escape_after(escape_, c);
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r') continue;
    text_[out] = c;
    lines_[out] = static_cast<std::uint32_t>(line_);
    columns_[out] = static_cast<std::uint32_t>(column_ - 1);
    ++out;
  }
  text_.resize(out);
  lines_.resize(out);
  columns_.resize(out);
}

void EngineLogReader::scan(bool at_end) {
  const auto& table = starts();
  const std::size_t size = text_.size();
  const std::size_t stop = at_end ? (size > 0 ? size - 1 : 0) : (size > kLookahead ? size - kLookahead : 0);
  std::size_t i = 0;
  for (; i < stop; ++i) {
    const auto pair = static_cast<std::size_t>(static_cast<unsigned char>(text_[i])) << 8 |
                      static_cast<unsigned char>(text_[i + 1]);
    if (table[pair]) match(i);
  }
  text_.erase(0, i);
  lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(i));
  columns_.erase(columns_.begin(), columns_.begin() + static_cast<std::ptrdiff_t>(i));
}

// Blanks and escapes end a number; a line's end does when no text of the pattern follows. A statement that
// has been wrapped before may be wrapped inside its last number: the rest then stands on a line of its own.
std::size_t EngineLogReader::number_at(std::size_t statement, std::size_t at, bool is_last) const {
  const std::string_view text = text_;
  const std::size_t most = std::min(text.size(), at + 64);
  const auto line_end = [&](std::size_t from) {
    std::size_t end = from;
    while (end < most && lines_[end] == lines_[from]) ++end;
    return end;
  };
  std::size_t end = at;
  while (end < most &&
         (end == at || lines_[end] != lines_[end - 1] || columns_[end] == columns_[end - 1] + 1))
    ++end;
  if (!is_last || at >= text.size()) return number_size(text.substr(at, end - at));
  const std::size_t own_end = line_end(at);
  const std::size_t own = number_size(text.substr(at, std::min(end, own_end) - at));
  const bool was_wrapped = lines_[at] != lines_[statement];
  if (!was_wrapped || at + own != own_end || own_end >= most || lines_[own_end] != lines_[at] + 1) return own;
  const std::size_t rest_end = line_end(own_end);
  const std::size_t whole = number_size(text.substr(at, rest_end - at));
  return at + whole == rest_end && rest_end <= end ? whole : own;
}

void EngineLogReader::match(std::size_t at) {
  const std::string_view text = text_;
  for (const LogPattern& pattern : kPatterns) {
    // Most places share two bytes with one pattern, and no more than those.
    if (text[at] != pattern.text[0] || text[at + 1] != pattern.text[1]) continue;
    if (!text.substr(at).starts_with(pattern.text.substr(0, pattern.text.find_first_of("#@")))) continue;
    std::pair<std::string, std::size_t> captures[9];
    std::size_t count = 0, from = at;
    bool fits = true;
    for (std::size_t i = 0; fits && i < pattern.text.size(); ++i) {
      const char c = pattern.text[i];
      if (c == '#') {
        const std::size_t length = number_at(at, from, i + 1 == pattern.text.size());
        fits = length > 0;
        captures[count++] = {std::string(text.substr(from, length)), from};
        from += length;
      } else if (c == '@') {
        const auto next =
            pattern.text.substr(i + 1).substr(0, pattern.text.substr(i + 1).find_first_of("#@"));
        const std::size_t end = text.substr(from, 512).find(next);
        fits = end != std::string_view::npos;
        if (!fits) break;
        captures[count++] = {std::string(text.substr(from, end)), from};
        from += end;
      } else {
        fits = from < text.size() && text[from] == c;
        ++from;
      }
    }
    if (!fits) continue;
    LogStatement statement;
    for (std::size_t i = 0; i < count; ++i) {
      if (pattern.keys[i] != mixed_tiers && pattern.keys[i] != engine_version)
        std::erase(captures[i].first, ',');
      if (pattern.keys[i] == mixed_tiers && pattern.text.find("one-grid") != std::string_view::npos)
        note_figure(mixed_form, "serial", captures[i].second);
      else if (pattern.keys[i] == mixed_tiers)
        note_figure(mixed_form, "one_grid", captures[i].second);
      if (pattern.keys[i] != none)
        statement.figures.push_back(
            {pattern.keys[i], captures[i].first, lines_[captures[i].second], columns_[captures[i].second]});
      note_figure(pattern.keys[i], std::move(captures[i].first), captures[i].second);
    }
    note_statement(std::move(statement));
    if (count == 0 && pattern.keys[0] == graph_profiling_disabled)
      note_figure(graph_profiling_disabled, "yes", at);
    if (pattern.text.starts_with(kConfigPattern)) read_dump(from, false);
    if (pattern.text.starts_with(kArgumentsPattern)) read_dump(from - 1, true);
    return;
  }
}

void EngineLogReader::note_statement(LogStatement statement) {
  if (statement.figures.empty() || log_.statements.size() >= kMostFigures) return;
  const auto equal = [](const LogFigure& a, const LogFigure& b) {
    return a.key == b.key && a.text == b.text;
  };
  for (const LogStatement& other : log_.statements) {
    if (std::ranges::equal(other.figures, statement.figures, equal)) return;
  }
  log_.statements.push_back(std::move(statement));
}

void EngineLogReader::note_figure(LogKey key, std::string text, std::size_t at) {
  if (key == none || log_.figures.size() >= kMostFigures) return;
  for (const LogFigure& figure : log_.figures) {
    if (figure.key == key && figure.text == text) return;
  }
  if (key == engine_version && log_.first(engine_version))
    fail(at, ErrorCode::invalid_value,
         concat("another engine, ", text, ", starts here; line ", log_.first(engine_version)->line,
                " starts ", log_.first(engine_version)->text),
         "cut the log so that it holds one start");
  log_.figures.push_back({key, std::move(text), lines_[at], columns_[at]});
}

void EngineLogReader::fail(std::size_t at, ErrorCode code, std::string message, std::string help) {
  if (log_.problems.size() >= kMaxProblems) return;
  at = std::min(at, lines_.empty() ? 0 : lines_.size() - 1);
  Place place{.source = {}};
  if (!lines_.empty()) {
    place.line = lines_[at];
    place.column = columns_[at];
  }
  log_.problems.push_back({Error{code, "", std::move(message), std::move(help)}, place});
}

void EngineLogReader::read_dump(std::size_t at, bool is_arguments) {
  const std::string_view rest = std::string_view(text_).substr(at, kLookahead);
  auto parsed = is_arguments ? parse_literal(rest) : parse_assignments(rest);
  if (is_arguments && !parsed.error.empty())
    return fail(
        at + (parsed.ended_early ? 0 : parsed.error_at), ErrorCode::invalid_value,
        parsed.ended_early ? "the engine's arguments begin here, and the log ends inside them"
                           : concat("the engine's arguments cannot be read from here: ", parsed.error),
        parsed.ended_early ? "give the whole log" : "does another rank's line stand inside? take it out");
  const i64 line = lines_[std::min(at, lines_.size() - 1)],
            column = columns_[std::min(at, columns_.size() - 1)];
  if (!is_arguments) {
    ++log_.starts;
    if (!log_.config) log_.config = LogDump{std::move(parsed.value), line, column};
    return;
  }
  const std::string_view raw = rest.substr(0, parsed.end);
  if (!log_.arguments) {
    arguments_text_ = raw;
    log_.arguments = LogDump{std::move(parsed.value), line, column};
  } else if (raw != arguments_text_) {
    fail(at, ErrorCode::invalid_value,
         concat("another engine starts here, with other arguments than in line ", log_.arguments->line),
         "cut the log so that it holds one start");
  }
}

EngineLog EngineLogReader::finish() {
  take_lines(true);
  scan(true);
  log_.lines = line_;
  if (log_.starts > 1)
    log_.notes.push_back(
        concat("the engine starts ", log_.starts, " times in this log, with equal arguments"));
  return std::move(log_);
}

const LogFigure* LogStatement::find(LogKey key) const {
  const auto at = std::ranges::find(figures, key, &LogFigure::key);
  return at == figures.end() ? nullptr : &*at;
}

std::vector<const LogFigure*> EngineLog::all(LogKey key) const {
  std::vector<const LogFigure*> found;
  for (const LogFigure& figure : figures) {
    if (figure.key == key) found.push_back(&figure);
  }
  return found;
}

const LogFigure* EngineLog::first(LogKey key) const {
  const auto at = std::ranges::find(figures, key, &LogFigure::key);
  return at == figures.end() ? nullptr : &*at;
}

namespace {

const LogFigure* extreme(const EngineLog& log, LogKey key, bool largest) {
  const LogFigure* best = nullptr;
  i64 best_value = 0;
  for (const LogFigure* figure : log.all(key)) {
    const auto value = scaled_decimal(figure->text, 1'000'000);
    if (!value || (best && (largest ? *value <= best_value : *value >= best_value))) continue;
    best = figure;
    best_value = *value;
  }
  return best;
}

}  // namespace

const LogFigure* EngineLog::smallest(LogKey key) const { return extreme(*this, key, false); }
const LogFigure* EngineLog::largest(LogKey key) const { return extreme(*this, key, true); }

Result<EngineLog> read_engine_log(const std::string& path) {
  const std::string name = path == "-" ? "stdin" : path;
  const int descriptor = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto unreadable = [&](std::string_view why) {
    return Error{ErrorCode::unreadable, "", concat("cannot read ", name, ": ", why), "check the path"};
  };
  if (descriptor < 0) return unreadable(std::strerror(errno));
  EngineLogReader reader(name);
  std::string piece(std::size_t{256} << 10, '\0');
  int failed = 0;
  for (;;) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed = errno;
    if (got <= 0 || reader.is_refused()) break;
    reader.feed(std::string_view(piece).substr(0, static_cast<std::size_t>(got)));
  }
  if (descriptor != STDIN_FILENO) ::close(descriptor);
  if (failed) return unreadable(std::strerror(failed));
  return reader.finish();
}

}  // namespace moeplan
