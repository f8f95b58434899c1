#include "cli/sweep/select.hpp"

#include <algorithm>
#include <utility>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

Error refused(std::string message, std::string help) {
  return {ErrorCode::invalid_value, "", std::move(message), std::move(help)};
}

Status read_pareto(std::string_view list, Selection& selection) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view key = list.substr(0, comma);
    const auto column = find_column(key);
    if (!column) return column.error();
    if (!(*column)->less_is_better) {
      std::vector<std::string_view> keys;
      for (const SweepColumn& row : sweep_columns()) {
        if (row.less_is_better) keys.push_back(row.key);
      }
      return refused(concat("column ", key, " has no better and worse"),
                     concat("--pareto takes ", join(keys, ", ")));
    }
    selection.pareto.push_back(*column);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return Ok{};
}

Status read_sort(std::string_view sort, const Sweep& sweep, Selection& selection) {
  const std::size_t colon = sort.rfind(':');
  const std::string_view order = colon == std::string_view::npos ? "asc" : sort.substr(colon + 1);
  const std::string_view key = sort.substr(0, colon);
  if (order != "asc" && order != "desc")
    return refused(concat("cannot sort in the order \"", shortened(order, 60), "\""),
                   "write COLUMN:asc or COLUMN:desc");
  selection.descending = order == "desc";
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (sweep.axes[i].name == key) selection.sort_axis = static_cast<int>(i);
  }
  if (selection.sort_axis >= 0) return Ok{};
  const auto column = find_column(key);
  if (!column) return column.error();
  if (!(*column)->cell) return refused(concat("column ", key, " cannot be sorted by"), "it is a picture");
  // The same order without reading text back.
  selection.sort_column = (*column)->key == "mib" ? *find_column("bytes") : *column;
  return Ok{};
}

// What a cell is compared by: its number or truth, its word.
std::pair<i64, std::string_view> order_of(const Cell& cell) {
  if (const auto* number = std::get_if<i64>(&cell)) return {*number, ""};
  if (const auto* truth = std::get_if<bool>(&cell)) return {*truth, ""};
  const auto* text = std::get_if<std::string>(&cell);
  return {0, text ? std::string_view(*text) : ""};
}

// Numbers ahead of words; what is not known comes last, whatever the order.
bool is_before(const Cell& a, const Cell& b, bool descending) {
  const auto rank = [](const Cell& cell) {
    return std::holds_alternative<std::monostate>(cell) ? 2
           : std::holds_alternative<std::string>(cell)  ? 1
                                                        : 0;
  };
  if (rank(a) == 2 || rank(b) == 2) return rank(a) < rank(b);
  const auto key_of = [&](const Cell& cell) { return std::pair(rank(cell), order_of(cell)); };
  return descending ? key_of(b) < key_of(a) : key_of(a) < key_of(b);
}

}  // namespace

bool dominates(std::span<const i64> a, std::span<const i64> b) {
  bool is_better = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    is_better = is_better || a[i] < b[i];
  }
  return is_better;
}

Result<Selection> parse_selection(std::string_view pareto, std::string_view sort, i64 top,
                                  const Sweep& sweep) {
  Selection selection;
  selection.top = top;
  if (auto s = read_pareto(pareto, selection); !s) return s.error();
  if (!sort.empty()) {
    if (auto s = read_sort(sort, sweep, selection); !s) return s.error();
  }
  return selection;
}

void require_facts(std::span<const SweepColumn* const> columns, const Selection& selection, Sweep& sweep) {
  const auto require = [&](const SweepColumn* column) {
    if (column && column->needs) sweep.*column->needs = true;
  };
  std::ranges::for_each(columns, require);
  std::ranges::for_each(selection.pareto, require);
  require(selection.sort_column);
}

void Selector::take(const SweepPoint& point) {
  Kept kept{point, {}, {}};
  if (selection_.sort_axis >= 0)
    kept.key = axis_cell(view_.sweep, static_cast<std::size_t>(selection_.sort_axis), point.index);
  else if (selection_.sort_column && !point.failed)
    kept.key = selection_.sort_column->cell(point, view_);
  if (selection_.pareto.empty()) {
    kept_.push_back(std::move(kept));
    // In the order of the grid the first are the top; else the worse half goes whenever there are twice as
    // many.
    if (selection_.top > 0 && static_cast<i64>(kept_.size()) >= 2 * selection_.top + 1024) shorten();
    return;
  }
  if (point.failed) return;
  for (const SweepColumn* column : selection_.pareto) {
    const Cell cell = column->cell(point, view_);
    const auto* number = std::get_if<i64>(&cell);
    if (!number) {
      ++incomparable_;
      return;
    }
    kept.measures.push_back(*number);
  }
  take_into_front(std::move(kept));
}

void Selector::take_into_front(Kept kept) {
  for (const Kept& other : kept_) {
    if (dominates(other.measures, kept.measures)) return;
  }
  std::erase_if(kept_, [&](const Kept& other) { return dominates(kept.measures, other.measures); });
  kept_.push_back(std::move(kept));
}

void Selector::shorten() {
  if (selection_.sort_axis >= 0 || selection_.sort_column)
    std::ranges::stable_sort(
        kept_, [&](const Kept& a, const Kept& b) { return is_before(a.key, b.key, selection_.descending); });
  const auto top = static_cast<std::size_t>(selection_.top);
  if (top > 0 && kept_.size() > top) kept_.erase(kept_.begin() + selection_.top, kept_.end());
}

std::vector<SweepPoint> Selector::finish() {
  shorten();
  std::vector<SweepPoint> points;
  for (const Kept& kept : kept_) points.push_back(kept.point);
  return points;
}

}  // namespace moeplan
