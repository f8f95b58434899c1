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

// A place that cannot be written to.
ExitCode refuse_output(const Error& error) {
  const Problem problem{error, {}};
  std::fputs(render_problems({&problem, 1}).c_str(), stderr);
  return ExitCode::input;
}

// The outputs of a run: rows that leave as they are planned, and formats of whole reports.
struct Places {
  std::vector<RowSink> rows;
  ReportOptions reports;

  bool keep_rows() const { return !reports.outputs.empty(); }
};

Places places_of(const ReportOptions& options) {
  Places places{{}, options};
  places.reports.outputs.clear();
  for (const Output& output : options.outputs) {
    if (const auto format = row_format(output))
      places.rows.emplace_back(output, *format);
    else
      places.reports.outputs.push_back(output);
  }
  return places;
}

// One config's sweep on its way to an answer.
struct Running {
  const SweepOptions& options;
  const Sweep& sweep;
  const SweepView& view;
  const Selection& selection;
  std::vector<const SweepColumn*> columns;
  std::vector<RowWriter> writers = {};  // one a sink of rows
};

RowWriter writer_of(const Running& run, RowFormat format, const std::string& config) {
  RowWriter writer{format, run.view, run.columns, config};
  std::erase_if(writer.columns, [&](const SweepColumn* column) {
    // JSON has bytes; people read MiB.
    const bool is_usual_mib = run.options.columns.empty() && column->key == "mib";
    return !column->cell || (is_usual_mib && format == RowFormat::jsonl);
  });
  return writer;
}

ExitCode code_of_signal(int signal) {
  return signal == 0 ? ExitCode::ok : signal == SIGTERM ? ExitCode::terminated : ExitCode::interrupted;
}

// How a run ended, and the points that are shown where they are kept.
struct Ended {
  ExitCode code = ExitCode::ok;  // other than ok: stop, and exit with it
  ShownPoints shown;
};

// Plans all points. Those that are shown are kept where a report or an order needs them; else rows leave at
// once.
Ended run_all(const Running& run, Places& places) {
  const bool leaves_at_once = run.selection.keeps_all();
  Ended ended;
  for (std::size_t i = 0; i < places.rows.size(); ++i) {
    if (auto s = places.rows[i].begin(run.writers[i]); !s) return {refuse_output(s.error()), {}};
  }
  std::vector<FormatPoint> formats;
  for (const RowWriter& writer : run.writers) {
    if (leaves_at_once)
      formats.push_back([&](const SweepPoint& point, std::string& out) { writer.append(point, out); });
  }
  Selector selector(run.selection, run.view);
  const auto take = [&](const SweepBlock& block) {
    for (std::size_t i = 0; i < block.texts.size(); ++i) {
      if (auto s = places.rows[i].write(block.texts[i]); !s) return refuse_output(s.error());
    }
    for (const SweepPoint& point : block.points) {
      ended.shown.failed += point.failed;
      ended.shown.raised += point.raised;
      if (places.keep_rows() || !leaves_at_once) selector.take(point);
    }
    if (run.selection.pareto.empty() || selector.kept() <= kMaxFront) return ExitCode::ok;
    return refuse_limit(concat("the front has more than ", grouped(kMaxFront), " points"),
                        "fewer values: equal points are all part of it");
  };
  ExitCode stopped = ExitCode::ok;
  const RunEnd end = run_sweep_points(run.sweep, {run.options.threads, !run.options.no_progress}, formats,
                                      [&](const SweepBlock& block) {
                                        stopped = take(block);
                                        return stopped == ExitCode::ok;
                                      });
  if (stopped != ExitCode::ok) return {stopped, {}};
  ended.code = code_of_signal(end.signal);
  ended.shown.done = end.done;
  ended.shown.incomparable = selector.incomparable();
  ended.shown.points = selector.finish();
  if (leaves_at_once) return ended;
  for (std::size_t i = 0; i < places.rows.size(); ++i) {
    std::string text;
    for (const SweepPoint& point : ended.shown.points) run.writers[i].append(point, text);
    if (auto s = places.rows[i].write(text); !s) return {refuse_output(s.error()), {}};
  }
  return ended;
}

// Rows that are in memory together; those of a front are counted as it grows.
i64 kept_rows(const Selection& selection, i64 points, bool keeps) {
  if (!selection.pareto.empty() || (!keeps && selection.keeps_all())) return 0;
  return selection.top > 0 ? min_of(selection.top, points) : points;
}

}  // namespace

ExitCode run_sweep(const SweepOptions& options) {
  const auto axes = parse_axes(options.axes);
  if (!axes) return refuse(axes.error());
  const i64 points = grid_points(*axes);
  if (points > options.max_points)
    return refuse_limit(
        concat(points_text(points), " points pass the limit of ", grouped(options.max_points)),
        "fewer values, or a higher --max-points");
  Places places = places_of(options.configs.report);

  std::vector<std::unique_ptr<Config>> configs;  // places in problems point into them
  std::vector<Report> reports;
  std::vector<Problem> problems;
  ExitCode ended_with = ExitCode::ok;
  for (const std::string& path : options.configs.paths) {
    configs.push_back(read_config(path, options.configs.overrides));
    Config& config = *configs.back();
    log_info(concat("read ", config.name, ": ", config.text.size(), " bytes"));
    if (!config.problems.empty()) {
      problems.insert(problems.end(), config.problems.begin(), config.problems.end());
      continue;
    }
    auto sweep = bind_sweep(config, options.configs.overrides, *axes, options.arena);
    if (!sweep) {
      if (sweep.error().pointer.empty()) return refuse(sweep.error());
      config.add(sweep.error());
      problems.insert(problems.end(), config.problems.begin(), config.problems.end());
      continue;
    }
    auto columns = choose_columns(options.columns, *sweep);
    if (!columns) return refuse(columns.error());
    const auto selection = parse_selection(options.pareto, options.sort, options.top, *sweep);
    if (!selection) return refuse(selection.error());
    if (const i64 kept = kept_rows(*selection, points, places.keep_rows()); kept > kMaxRows)
      return refuse_limit(concat(grouped(kMaxRows), " rows are kept in memory at most, not ", grouped(kept)),
                          places.keep_rows()
                              ? "write -o csv, tsv or jsonl alone, which keep none, or show some with --top "
                                "or --pareto"
                              : "show some with --top or --pareto, or leave the order of the grid");
    require_facts(*columns, *selection, *sweep);
    const SweepView view = view_of(*sweep);
    Running run{options, *sweep, view, *selection, std::move(*columns)};
    const bool is_one = options.configs.paths.size() == 1;
    for (const RowSink& sink : places.rows)
      run.writers.push_back(writer_of(run, sink.format(), is_one ? "" : config.name));

    const Ended ended = run_all(run, places);
    ended_with = ended.code;
    if (ended.code == ExitCode::limit || ended.code == ExitCode::input) return ended.code;
    if (places.keep_rows()) {
      reports.push_back(sweep_report(view, *selection, run.columns, options.columns.empty(), ended.shown));
      locate_findings(reports.back(), config);
    } else if (ended.shown.failed > 0 && !options.configs.report.render.quiet) {
      std::fprintf(stderr, "note: %s of %s points cannot be planned: see their error\n",
                   grouped(ended.shown.failed).c_str(), grouped(ended.shown.done).c_str());
    }
    if (ended_with != ExitCode::ok) break;
  }
  for (RowSink& sink : places.rows) {
    if (auto s = sink.open(); !s) return refuse_output(s.error());
  }
  const ExitCode code = finish(reports, problems, places.reports);
  return ended_with != ExitCode::ok ? ended_with : code;
}

}  // namespace moeplan
