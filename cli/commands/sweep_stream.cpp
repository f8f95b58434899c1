#include "cli/commands/sweep_stream.hpp"

#include <charconv>

#include "cli/io/json_writer.hpp"
#include "cli/render/json.hpp"
#include "cli/render/rows.hpp"

namespace moeplan {
namespace {

void append_number(std::string& out, i64 number) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, end);
}

// One line of a sheet.
class SheetLine {
 public:
  SheetLine(std::string& out, RowFormat format) : out_(out), format_(format) {}

  void add(const Cell& cell) {
    if (!is_first_) out_ += format_ == RowFormat::csv ? ',' : '\t';
    is_first_ = false;
    if (const auto* number = std::get_if<i64>(&cell)) return append_number(out_, *number);
    if (std::holds_alternative<std::monostate>(cell)) return;
    out_ += format_ == RowFormat::csv ? csv_quoted(sheet_text(cell)) : sheet_text(cell);
  }

  void end() { out_ += format_ == RowFormat::csv ? "\r\n" : "\n"; }

 private:
  std::string& out_;
  RowFormat format_;
  bool is_first_ = true;
};

Cell cell_of(const SweepColumn& column, const SweepPoint& point, const SweepView& view) {
  return point.failed ? Cell() : column.cell(point, view);
}

Cell error_of(const SweepPoint& point) {
  return point.failed ? Cell(std::string(name_of(point.error))) : Cell();
}

}  // namespace

std::optional<RowFormat> row_format(const Output& output) {
  if (output.format->name == "csv") return RowFormat::csv;
  if (output.format->name == "tsv") return RowFormat::tsv;
  if (output.format->name == "jsonl") return RowFormat::jsonl;
  return std::nullopt;
}

std::string RowWriter::header() const {
  std::string out;
  if (format == RowFormat::jsonl) return out;
  SheetLine line(out, format);
  if (!config.empty()) line.add(std::string("config"));
  for (const Axis& axis : view.sweep.axes) line.add(axis.name);
  for (const SweepColumn* column : columns) line.add(std::string(column->key));
  line.add(std::string("error"));
  line.end();
  return out;
}

void RowWriter::append(const SweepPoint& point, std::string& out) const {
  const Sweep& sweep = view.sweep;
  if (format != RowFormat::jsonl) {
    SheetLine line(out, format);
    if (!config.empty()) line.add(config);
    for (std::size_t i = 0; i < sweep.axes.size(); ++i) line.add(axis_cell(sweep, i, point.index));
    for (const SweepColumn* column : columns) line.add(cell_of(*column, point, view));
    line.add(error_of(point));
    line.end();
    return;
  }
  JsonWriter json(out);
  json.begin_object();
  if (!config.empty()) json.member("config", config);
  for (std::size_t i = 0; i < sweep.axes.size(); ++i)
    write_cell(json.text_key(sweep.axes[i].name), axis_cell(sweep, i, point.index));
  for (const SweepColumn* column : columns) write_cell(json.key(column->key), cell_of(*column, point, view));
  write_cell(json.key("error"), error_of(point));
  json.end_object();
  out += '\n';
}

Status RowSink::open() {
  if (output_.path.empty() || file_) return Ok{};
  auto file = GrowingFile::open(output_.path, output_.appends);
  if (!file) return file.error();
  file_.emplace(std::move(*file));
  return Ok{};
}

Status RowSink::begin(const RowWriter& writer) {
  if (has_begun_) return Ok{};
  has_begun_ = true;
  if (auto s = open(); !s) return s;
  return write(writer.header());
}

Status RowSink::write(std::string_view text) { return file_ ? file_->write(text) : write_out(text); }

}  // namespace moeplan
