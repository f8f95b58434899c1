#include "cli/sweep/report.hpp"

#include <algorithm>

#include "cli/commands/engine_note.hpp"
#include "cli/commands/launch_key.hpp"
#include "cli/commands/planned_config.hpp"
#include "cli/render/text.hpp"
#include "cli/sweep/chart.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Arenas side by side that still fit a terminal, and rows that are worth planning again for them.
constexpr std::size_t kMaxArenaColumns = 8;
constexpr std::size_t kMaxArenaRows = 1'000;

std::string upper(std::string_view text) {
  std::string out;
  for (char c : text) out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

// "CAPACITY"; of a pointer its last part.
std::string title_of(const Axis& axis) {
  if (axis.kind != AxisKind::pointer) return upper(axis.name);
  return axis.name.substr(axis.name.rfind('/') + 1);
}

void add_axis_columns(const Sweep& sweep, Table& table) {
  for (const Axis& axis : sweep.axes)
    table.columns.push_back(
        {axis.name, title_of(axis),
         axis.is_numeric() || axis.kind == AxisKind::block ? ColumnKind::count : ColumnKind::text});
}

void add_axis_cells(const Sweep& sweep, i64 point, Row& row) {
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) row.cells.push_back(axis_cell(sweep, i, point));
}

// One printed column of the table: people may see another text than programs.
struct Printed {
  const SweepColumn* column;
  bool is_text;
};

Table points_table(const SweepView& view, std::span<const SweepColumn* const> columns, bool are_usual,
                   const std::vector<SweepPoint>& points, bool any_failed) {
  Table table;
  table.key = "points";
  add_axis_columns(view.sweep, table);
  std::vector<Printed> printed;
  for (const SweepColumn* column : columns) {
    const std::string key(column->key), title(column->title);
    const bool is_mib = are_usual && column->key == "mib";
    if (column->cell && !is_mib) {
      // Without a choice people see the change in MiB alone.
      const bool hidden = column->text || (are_usual && column->key == "change_bytes");
      table.columns.push_back({key, title, column->kind, hidden ? Audience::programs : Audience::everyone});
      printed.push_back({column, false});
    }
    if (column->text && !(are_usual && column->key == "change_bytes")) {
      table.columns.push_back({column->cell ? key + "_text" : key, title, column->kind, Audience::people});
      printed.push_back({column, true});
    }
  }
  table.columns.push_back(
      {"error", "ERROR", ColumnKind::text, any_failed ? Audience::everyone : Audience::programs});
  table.columns.push_back({"configured", "", ColumnKind::text, Audience::programs});
  table.columns.push_back({"remark", "", ColumnKind::text, Audience::people});
  for (const SweepPoint& point : points) {
    Row row;
    add_axis_cells(view.sweep, point.index, row);
    for (const auto& [column, is_text] : printed) {
      if (point.failed)
        row.cells.push_back(is_text ? Cell(std::string()) : Cell());
      else
        row.cells.push_back(is_text ? Cell(column->text(point, view)) : column->cell(point, view));
    }
    const bool configured = is_configured(view.sweep, point.index);
    row.cells.push_back(point.failed ? Cell(std::string(name_of(point.error))) : Cell());
    row.cells.push_back(configured);
    row.cells.push_back(std::string(configured ? "configured" : ""));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string plain_key(std::string_view id) {
  std::string key;
  for (char c : id) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    key += is_plain ? c : '_';
  }
  return key;
}

// What each arena takes where several are looked at.
std::optional<Table> arenas_table(const SweepView& view, const std::vector<SweepPoint>& points,
                                  std::span<const std::vector<PointArena>> arenas) {
  std::vector<std::string> ids;
  for (const auto& of_point : arenas) {
    for (const PointArena& arena : of_point) {
      if (std::ranges::find(ids, arena.id) == ids.end()) ids.push_back(arena.id);
    }
  }
  if (ids.size() < 2 || ids.size() > kMaxArenaColumns) return std::nullopt;
  Table table;
  table.key = "arenas";
  table.title = "bytes by arena";
  add_axis_columns(view.sweep, table);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string key = plain_key(ids[i]);
    const bool is_taken =
        std::ranges::any_of(table.columns, [&](const Column& column) { return column.key == key; });
    table.columns.push_back({is_taken ? concat(key, "_", i) : key, upper(ids[i]), ColumnKind::count});
  }
  for (std::size_t p = 0; p < points.size(); ++p) {
    Row row;
    add_axis_cells(view.sweep, points[p].index, row);
    for (const std::string& id : ids) {
      const auto found = std::ranges::find(arenas[p], id, &PointArena::id);
      row.cells.push_back(found == arenas[p].end() ? points[p].failed ? Cell() : Cell(i64{0})
                                                   : Cell(found->bytes));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// "capacity 512, block unpinned": where a point lies.
std::string place_of(const Sweep& sweep, i64 point) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    const AxisValue value = sweep.axes[i].at(axis_index(sweep.axes, i, point));
    parts.push_back(
        concat(sweep.axes[i].name, " ", value.is_number ? grouped(value.number) : value.written()));
  }
  return join(parts, ", ");
}

std::string what_is_swept(const Sweep& sweep) {
  return sweep.arena.empty() ? std::string("all arenas") : sweep.arena;
}

std::string verdict_of(const SweepView& view, const ShownPoints& shown) {
  const Sweep& sweep = view.sweep;
  const Deployment& d = sweep.config->deployment;
  std::string verdict = d.name ? concat(*d.name, ": ") : std::string();
  const SweepPoint* least = nullptr;
  const SweepPoint* most = nullptr;
  for (const SweepPoint& point : shown.points) {
    if (point.failed) continue;
    if (!least || point.bytes < least->bytes) least = &point;
    if (!most || point.bytes > most->bytes) most = &point;
  }
  if (!least)
    verdict += "no point can be planned";
  else
    verdict += concat(what_is_swept(sweep), " ", grouped(least->bytes), " B (", mebibytes(least->bytes),
                      " MiB) at ", place_of(sweep, least->index));
  if (most && most->bytes != least->bytes)
    verdict += concat(" to ", grouped(most->bytes), " B (", mebibytes(most->bytes), " MiB) at ",
                      place_of(sweep, most->index));
  verdict += concat(" · ", grouped(shown.done), shown.done == 1 ? " point" : " points");
  if (shown.failed > 0) verdict += concat(", ", grouped(shown.failed), " of them cannot be planned");
  if (d.contract &&
      std::ranges::none_of(sweep.axes, [](const Axis& axis) { return axis.kind == AxisKind::contract; }))
    verdict += concat(" · contract ", d.contract->id);
  return verdict;
}

void add_kv_note(const SweepView& view, Report& report) {
  const Deployment& d = view.sweep.config->deployment;
  if (!view.configured) {
    report.notes.push_back("the config itself cannot be planned, so there is nothing to change against");
    return;
  }
  if (view.kv) {
    report.notes.push_back(concat("KV tokens: a change at the configured ",
                                  grouped(view.kv->bytes_per_token()), " B a token and rank, DCP ",
                                  view.kv->dcp, ", before rounding to blocks"));
    return;
  }
  if (!check_described(d)) {
    report.notes.push_back("KV tokens: the config describes no deployment whose KV cache they could be of");
    return;
  }
  const auto kv = kv_cache_of(d);
  report.notes.push_back(concat("KV tokens are not stated: ", kv ? "" : kv.error().message));
}

void add_notes(const SweepView& view, const Selection& selection, const ShownPoints& shown, Report& report) {
  const Sweep& sweep = view.sweep;
  const Deployment& d = sweep.config->deployment;
  if (shown.done < sweep.points)
    report.notes.push_back(
        concat("interrupted: ", grouped(shown.done), " of ", grouped(sweep.points), " points"));
  if (!selection.pareto.empty()) {
    std::vector<std::string_view> keys;
    for (const SweepColumn* column : selection.pareto) keys.push_back(column->key);
    report.notes.push_back(concat("the front of least ", join(keys, " and "),
                                  " alone: no point has less of one and no more of another; ",
                                  grouped(shown.done), " points compared"));
    if (shown.incomparable > 0)
      report.notes.push_back(concat(grouped(shown.incomparable), " points lack one of them and stay out"));
  } else if (selection.top > 0 && selection.top < shown.done) {
    report.notes.push_back(concat("the first ", grouped(static_cast<i64>(shown.points.size())), " of ",
                                  grouped(shown.done), " points"));
  }
  add_kv_note(view, report);
  add_engine_note(report, d);
  if (shown.raised > 0)
    report.notes.push_back(concat("the engine refuses a capacity above max_num_batched_tokens ",
                                  grouped(d.engine->max_num_batched_tokens), ": ", grouped(shown.raised),
                                  shown.raised == 1 ? " point is" : " points are",
                                  " of a deployment that schedules as many tokens as its capacity"));
  const bool any_launches =
      std::ranges::any_of(shown.points, [](const SweepPoint& point) { return point.launches.has_value(); });
  if (!any_launches && !shown.points.empty())
    report.notes.push_back("launches are known of the arenas that an EXL3 deployment makes, not of these");
  if (sweep.wants_cold_keys && std::ranges::none_of(shown.points, [](const SweepPoint& point) {
        return point.cold_keys.has_value();
      })) {
    const auto shared_memory = shared_memory_of(d);
    report.notes.push_back(concat(
        "cold keys are not known: ",
        shared_memory ? "no point has plans whose launch keys are modelled" : shared_memory.error().message));
  }
  const bool unpins = std::ranges::any_of(
      sweep.axes, [](const Axis& axis) { return axis.kind == AxisKind::block && !axis.is_numeric(); });
  if (unpins && d.contract && d.contract->trellis_launch_needs_pin)
    report.notes.push_back(
        "unpinned: the size query prices it, launch planning of a Trellis plan refuses it");
}

}  // namespace

SweepView view_of(const Sweep& sweep) {
  SweepView view{.sweep = sweep, .configured = {}, .kv = {}};
  const SweepPoint configured = PointPlanner(sweep).plan_configured();
  if (!configured.failed) view.configured = configured;
  const Deployment& d = sweep.config->deployment;
  if (!check_described(d)) return view;
  if (auto kv = kv_cache_of(d)) view.kv = std::move(*kv);
  return view;
}

Report sweep_report(SweepView view, const Selection& selection, std::span<const SweepColumn* const> columns,
                    bool are_usual, const ShownPoints& shown) {
  const Sweep& sweep = view.sweep;
  const Deployment& d = sweep.config->deployment;
  for (const SweepPoint& point : shown.points) view.most_bytes = max_of(view.most_bytes, point.bytes);
  Report report;
  report.schema = "moeplan.sweep/1";
  report.verdict = verdict_of(view, shown);
  report.subject = subject_of(d);
  report.facts = {{"name", d.name ? Cell(*d.name) : Cell()},
                  {"contract", d.contract ? Cell(std::string(d.contract->id)) : Cell()},
                  {"arena", sweep.arena.empty() ? Cell() : Cell(sweep.arena)}};
  report.totals = {{"points", shown.done},
                   {"failed_points", shown.failed},
                   {"configured_bytes", view.configured ? Cell(view.configured->bytes) : Cell()},
                   {"kv_bytes_per_token", view.kv ? Cell(view.kv->bytes_per_token()) : Cell()}};
  report.tables.push_back(points_table(view, columns, are_usual, shown.points, shown.failed > 0));
  if (shown.points.size() <= kMaxArenaRows) {
    std::vector<std::vector<PointArena>> arenas;
    PointPlanner planner(sweep);
    for (const SweepPoint& point : shown.points)
      arenas.push_back(point.failed ? std::vector<PointArena>() : planner.arenas(point.index));
    if (sweep.arena.empty()) {
      if (auto table = arenas_table(view, shown.points, arenas)) report.tables.push_back(std::move(*table));
    }
    report.chart = sweep_chart(sweep, shown.points, arenas);
  }
  if (!report.chart && shown.failed < shown.done)
    report.notes.push_back("no chart: it shows up to 1,000 points on 8 curves of 512");
  add_notes(view, selection, shown, report);
  return report;
}

}  // namespace moeplan
