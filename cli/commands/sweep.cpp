// moeplan sweep: what if capacity, blocks, tokens, ranks or multiprocessors change? One row a point of a
// grid.
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/sweep_stream.hpp"
#include "cli/io/text_file.hpp"
#include "cli/log.hpp"
#include "cli/render/text.hpp"
#include "cli/sweep/report.hpp"
#include "cli/sweep/run.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// A larger sweep leaves row by row.
constexpr i64 kMaxRows = 100'000;
// Every point is compared with the whole front.
constexpr i64 kMaxFront = 20'000;

ExitCode refuse(const Error& error) {
  std::fprintf(stderr, "error[usage]: %s\n  help: %s\n", printable(error.message).c_str(),
               printable(error.help).c_str());
  return ExitCode::usage;
}

ExitCode refuse_limit(const std::string& message, const std::string& help) {
  std::fprintf(stderr, "error[limit]: %s\n  help: %s\n", message.c_str(), help.c_str());
  return ExitCode::limit;
}

std::string points_text(i64 points) {
  constexpr i64 kUncounted = i64{1} << 62;
  return points >= kUncounted ? concat("more than ", grouped(kUncounted - 1)) : grouped(points);
}

Result<std::vector<Axis>> parse_axes(const std::vector<std::string>& texts) {
  std::vector<Axis> axes;
  for (const std::string& text : texts) {
    auto axis = parse_axis(text);
    if (!axis) return axis.error();
    axes.push_back(std::move(*axis));
  }
  return axes;
}

std::optional<RowFormat> row_format(std::string_view format) {
  if (format == "csv") return RowFormat::csv;
  if (format == "jsonl") return RowFormat::jsonl;
  return std::nullopt;
}

// One config's sweep on its way to an answer.
struct Running {
  const SweepOptions& options;
  const Sweep& sweep;
  const SweepView& view;
  const Selection& selection;
  std::vector<const SweepColumn*> columns;
};

struct Ended {
  ExitCode code = ExitCode::ok;  // other than ok: stop, and exit with it
  i64 done = 0;
  i64 failed = 0;
  i64 raised = 0;
};

ExitCode code_of_signal(int signal) {
  return signal == 0 ? ExitCode::ok : signal == SIGTERM ? ExitCode::terminated : ExitCode::interrupted;
}

// Plans all points and counts them; `take` gets each block.
Ended run_all(const Running& run, const FormatPoint& format,
              const std::function<ExitCode(const SweepBlock&)>& take) {
  Ended ended;
  const RunOptions options{run.options.threads, !run.options.no_progress};
  ExitCode stopped = ExitCode::ok;
  const RunEnd end = run_sweep_points(run.sweep, options, format, [&](const SweepBlock& block) {
    for (const SweepPoint& point : block.points) {
      ended.failed += point.failed;
      ended.raised += point.raised;
    }
    stopped = take(block);
    return stopped == ExitCode::ok;
  });
  ended.done = end.done;
  ended.code = stopped != ExitCode::ok ? stopped : code_of_signal(end.signal);
  return ended;
}

// The points that are shown, kept in memory.
Ended select_points(const Running& run, std::vector<SweepPoint>& shown, i64& incomparable) {
  Selector selector(run.selection, run.view);
  const Ended ended = run_all(run, nullptr, [&](const SweepBlock& block) {
    for (const SweepPoint& point : block.points) selector.take(point);
    if (run.selection.pareto.empty() || selector.kept() <= kMaxFront) return ExitCode::ok;
    return refuse_limit(concat("the front has more than ", grouped(kMaxFront), " points"),
                        "fewer values: equal points are all part of it");
  });
  incomparable = selector.incomparable();
  shown = selector.finish();
  return ended;
}

Ended stream_rows(const Running& run, const RowWriter& writer, bool with_header) {
  if (with_header) {
    if (const ExitCode code = print(writer.header()); code != ExitCode::ok) return {code};
  }
  if (run.selection.keeps_all())
    return run_all(
        run, [&](const SweepPoint& point, std::string& out) { writer.append(point, out); },
        [](const SweepBlock& block) { return print(block.text); });
  std::vector<SweepPoint> shown;
  i64 incomparable = 0;
  Ended ended = select_points(run, shown, incomparable);
  if (ended.code == ExitCode::limit) return ended;
  std::string text;
  for (const SweepPoint& point : shown) writer.append(point, text);
  if (const ExitCode code = print(text); code != ExitCode::ok) ended.code = code;
  return ended;
}

// Rows that are in memory together; those of a front are counted as it grows.
i64 kept_rows(const Selection& selection, i64 points, bool streams) {
  if (!selection.pareto.empty() || (streams && selection.keeps_all())) return 0;
  return selection.top > 0 ? min_of(selection.top, points) : points;
}

bool is_for_programs(const SweepColumn* column) { return column->cell != nullptr; }

}  // namespace

ExitCode run_sweep(const SweepOptions& options) {
  const auto axes = parse_axes(options.axes);
  if (!axes) return refuse(axes.error());
  const i64 points = grid_points(*axes);
  if (points > options.max_points)
    return refuse_limit(
        concat(points_text(points), " points pass the limit of ", grouped(options.max_points)),
        "fewer values, or a higher --max-points");
  const auto rows = row_format(options.format);

  std::vector<std::unique_ptr<Config>> configs;  // places in problems point into them
  std::vector<Report> reports;
  std::vector<Problem> problems;
  ExitCode ended_with = ExitCode::ok;
  bool any_header = false;
  for (const std::string& path : options.configs.paths) {
    configs.push_back(read_config(path, options.configs.overrides));
    Config& config = *configs.back();
    log_info(concat("read ", config.name, ": ", config.text.size(), " bytes"));
    if (!config.problems.empty()) {
      problems.insert(problems.end(), config.problems.begin(), config.problems.end());
      continue;
    }
    const auto sweep = bind_sweep(config, options.configs.overrides, *axes, options.arena);
    if (!sweep) {
      if (sweep.error().pointer.empty()) return refuse(sweep.error());
      config.add(sweep.error());
      problems.insert(problems.end(), config.problems.begin(), config.problems.end());
      continue;
    }
    const SweepView view = view_of(*sweep);
    auto columns = choose_columns(options.columns, *sweep);
    if (!columns) return refuse(columns.error());
    const auto selection = parse_selection(options.pareto, options.sort, options.top, *sweep);
    if (!selection) return refuse(selection.error());
    Running run{options, *sweep, view, *selection, std::move(*columns)};
    if (const i64 kept = kept_rows(*selection, points, rows.has_value()); kept > kMaxRows)
      return refuse_limit(concat(grouped(kMaxRows), " rows are kept in memory at most, not ", grouped(kept)),
                          rows ? "show some with --top or --pareto, or leave the order of the grid"
                               : "write --format csv, which keeps none, or show some with --top or --pareto");

    if (rows) {
      std::erase_if(run.columns, [&](const SweepColumn* column) {
        // JSON has bytes; people read MiB.
        return !is_for_programs(column) ||
               (options.columns.empty() && rows == RowFormat::jsonl && column->key == "mib");
      });
      const RowWriter writer{*rows, view, run.columns, options.configs.paths.size() > 1 ? config.name : ""};
      const Ended ended = stream_rows(run, writer, !any_header);
      any_header = true;
      if (ended.failed > 0 && !options.configs.report.render.quiet)
        std::fprintf(stderr, "note: %s of %s points cannot be planned: see their error\n",
                     grouped(ended.failed).c_str(), grouped(ended.done).c_str());
      ended_with = ended.code;
    } else {
      ShownPoints shown;
      const Ended ended = select_points(run, shown.points, shown.incomparable);
      if (ended.code == ExitCode::limit) return ended.code;
      shown.done = ended.done;
      shown.failed = ended.failed;
      shown.raised = ended.raised;
      reports.push_back(sweep_report(view, *selection, run.columns, options.columns.empty(), shown));
      ended_with = ended.code;
    }
    if (ended_with != ExitCode::ok) break;
  }
  if (rows) {
    if (!problems.empty()) std::fputs(render_problems(problems).c_str(), stderr);
    return ended_with != ExitCode::ok ? ended_with : problems.empty() ? ExitCode::ok : ExitCode::input;
  }
  const ExitCode code = finish(reports, problems, options.configs.report);
  return ended_with != ExitCode::ok ? ended_with : code;
}

}  // namespace moeplan
