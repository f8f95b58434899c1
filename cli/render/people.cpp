#include "cli/render/people.hpp"

#include <algorithm>

#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

using Kind = PeopleColumn::Kind;

constexpr i64 kMebibyte = i64{1} << 20, kGibibyte = i64{1} << 30;

std::string cell_text(const Cell& cell) {
  if (const auto* truth = std::get_if<bool>(&cell)) return *truth ? "yes" : "no";
  if (const auto* number = std::get_if<i64>(&cell)) return grouped(*number);
  if (const auto* text = std::get_if<std::string>(&cell)) return printable(*text);
  if (const auto* list = std::get_if<std::vector<i64>>(&cell)) return join(*list, "x");
  if (const auto* raw = std::get_if<RawJson>(&cell)) return printable(raw->text);
  return "";
}

i64 bytes_of(const Cell& cell) {
  const auto* bytes = std::get_if<i64>(&cell);
  return bytes ? *bytes : 0;
}

std::vector<const Row*> rows_for_people(const Table& table) {
  std::vector<const Row*> rows;
  for (const Row& row : table.rows) rows.push_back(&row);
  if (table.people_sort_by >= 0) {
    const auto column = static_cast<std::size_t>(table.people_sort_by);
    std::ranges::stable_sort(rows, std::greater{},
                             [&](const Row* row) { return bytes_of(row->cells[column]); });
  }
  return rows;
}

// The share of `value` in `most`, in eighths of a character.
std::string bar_of(i64 value, i64 most, bool ascii) {
  constexpr i64 kCharacters = 10;
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (most <= 0 || value <= 0) return "";
  // Large values are shortened first so that the product fits.
  while (most > i64{1} << 40) {
    most >>= 1;
    value >>= 1;
  }
  const i64 eighths = value * kCharacters * 8 / most;
  std::string bar;
  for (i64 i = 0; i < eighths / 8; ++i) bar += ascii ? "#" : "█";
  if (!ascii) bar += kEighths[eighths % 8];
  return bar;
}

// A title that counts bytes, counting a unit: "GAINED BYTES", "GAINED MiB".
std::string title_in(std::string title, std::string_view unit) {
  if (title.ends_with("BYTES")) title.erase(title.size() - 5);
  if (!title.empty() && !title.ends_with(' ')) title += ' ';
  return title + std::string(unit);
}

// Bytes in the largest unit that they fill, named.
std::string in_fitting_unit(i64 bytes) {
  const i64 magnitude = bytes < 0 ? -bytes : bytes;
  if (magnitude >= kGibibyte) return concat(in_units(bytes, kGibibyte), " GiB");
  if (magnitude >= kMebibyte) return concat(in_units(bytes, kMebibyte), " MiB");
  if (magnitude >= 1024) return concat(in_units(bytes, 1024), " KiB");
  return concat(grouped(bytes), " B");
}

// The columns that a column of bytes prints as.
std::vector<PeopleColumn> byte_columns(const Column& column, std::size_t index,
                                       const std::vector<const Row*>& rows, Units units) {
  const auto texts = [&](auto show) {
    std::vector<std::string> out;
    for (const Row* row : rows) {
      const Cell& cell = row->cells[index];
      out.push_back(std::holds_alternative<i64>(cell) ? show(bytes_of(cell)) : cell_text(cell));
    }
    return out;
  };
  const auto in = [](i64 unit) { return [unit](i64 bytes) { return in_units(bytes, unit); }; };
  switch (units) {
    case Units::bytes:
      return {{column.title, Kind::right, texts(grouped)}};
    case Units::mib:
      return {{title_in(column.title, "MiB"), Kind::right, texts(in(kMebibyte))}};
    case Units::gib:
      return {{title_in(column.title, "GiB"), Kind::right, texts(in(kGibibyte))}};
    case Units::automatic:
      return {{title_in(column.title, "SIZE"), Kind::right, texts(in_fitting_unit)}};
    case Units::bytes_and_mib:
      break;
  }
  return {{column.title, Kind::right, texts(grouped)}, {"MiB", Kind::right, texts(in(kMebibyte))}};
}

}  // namespace

bool is_for_people(const Table& table) {
  const auto is_seen = [](const Column& column) { return column.audience != Audience::programs; };
  return !(table.rows.empty() && table.footers.empty()) && std::ranges::any_of(table.columns, is_seen);
}

std::vector<PeopleColumn> people_columns(const Table& table, const RenderOptions& options) {
  std::vector<const Row*> rows = rows_for_people(table);
  const std::size_t ranked = rows.size();  // rows that are no footers
  for (const Row& footer : table.footers) rows.push_back(&footer);

  std::vector<PeopleColumn> columns;
  for (std::size_t index = 0; index < table.columns.size(); ++index) {
    const Column& column = table.columns[index];
    if (column.audience == Audience::programs) continue;
    if (column.kind == ColumnKind::bytes) {
      for (PeopleColumn& printed : byte_columns(column, index, rows, options.units))
        columns.push_back(std::move(printed));
    } else {
      columns.push_back({column.title, column.kind == ColumnKind::text ? Kind::left : Kind::right, {}});
      for (const Row* row : rows) columns.back().texts.push_back(cell_text(row->cells[index]));
    }
    if (!column.draws_bar) continue;
    i64 most = 0;
    for (std::size_t i = 0; i < ranked; ++i) most = max_of(most, bytes_of(rows[i]->cells[index]));
    columns.push_back({"", Kind::bar, {}});
    for (std::size_t i = 0; i < rows.size(); ++i)
      columns.back().texts.push_back(i < ranked ? bar_of(bytes_of(rows[i]->cells[index]), most, options.ascii)
                                                : "");
  }
  return columns;
}

}  // namespace moeplan
