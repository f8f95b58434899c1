#include "cli/commands/sweep_stream.hpp"

#include <charconv>

#include "cli/io/json_writer.hpp"

namespace moeplan {
namespace {

void append_number(std::string& out, i64 number) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, end);
}

void append_csv(std::string& out, const Cell& cell) {
  if (const auto* number = std::get_if<i64>(&cell)) return append_number(out, *number);
  if (const auto* text = std::get_if<std::string>(&cell)) return append_csv_field(out, *text);
  if (const auto* truth = std::get_if<bool>(&cell)) out += *truth ? "true" : "false";
}

void append_json(JsonWriter& json, const Cell& cell) {
  if (const auto* number = std::get_if<i64>(&cell))
    json.value(*number);
  else if (const auto* text = std::get_if<std::string>(&cell))
    json.value(std::string_view(*text));
  else if (const auto* truth = std::get_if<bool>(&cell))
    json.value(*truth);
  else
    json.null();
}

Cell cell_of(const SweepColumn& column, const SweepPoint& point, const SweepView& view) {
  return point.failed ? Cell() : column.cell(point, view);
}

Cell error_of(const SweepPoint& point) {
  return point.failed ? Cell(std::string(name_of(point.error))) : Cell();
}

}  // namespace

void append_csv_field(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

std::string RowWriter::header() const {
  if (format == RowFormat::jsonl) return "";
  std::string out = config.empty() ? "" : "config,";
  for (const Axis& axis : view.sweep.axes) out += axis.name + ",";
  for (const SweepColumn* column : columns) {
    out += column->key;
    out += ',';
  }
  return out + "error\r\n";
}

void RowWriter::append(const SweepPoint& point, std::string& out) const {
  const Sweep& sweep = view.sweep;
  if (format == RowFormat::csv) {
    if (!config.empty()) {
      append_csv_field(out, config);
      out += ',';
    }
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
      append_csv(out, axis_cell(sweep, i, point.index));
      out += ',';
    }
    for (const SweepColumn* column : columns) {
      append_csv(out, cell_of(*column, point, view));
      out += ',';
    }
    append_csv(out, error_of(point));
    out += "\r\n";
    return;
  }
  JsonWriter json(out);
  json.begin_object();
  if (!config.empty()) json.member("config", config);
  for (std::size_t i = 0; i < sweep.axes.size(); ++i)
    append_json(json.key(sweep.axes[i].name), axis_cell(sweep, i, point.index));
  for (const SweepColumn* column : columns) append_json(json.key(column->key), cell_of(*column, point, view));
  append_json(json.key("error"), error_of(point));
  json.end_object();
  out += '\n';
}

}  // namespace moeplan
