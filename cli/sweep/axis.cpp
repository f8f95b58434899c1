#include "cli/sweep/axis.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "planner/core/contract.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kMostPoints = i64{1} << 62;

constexpr AxisName kNames[] = {
    {"capacity", AxisKind::capacity, 1, kMaxTokens, "",
     "VLLM_EXL3_PREFILL_CAPACITY; of stated plans: max_tokens"},
    {"block", AxisKind::block, 1, kMaxTokens, "unpinned", "route block of the arena chosen with --arena"},
    {"max_tokens", AxisKind::max_tokens, 1, kMaxTokens, "",
     "max_num_batched_tokens; of a decode arena: VLLM_EXL3_TRELLIS_MAX_M; of stated plans: max_tokens"},
    {"tp", AxisKind::tp, 1, 1024, "", "tensor-parallel ranks"},
    {"sms", AxisKind::sms, 1, kMaxMultiprocessors, "", "multiprocessors of the device"},
    {"contract", AxisKind::contract, 0, 0, "", "layout contract"},
};

Error refused(std::string message, std::string help) {
  return {ErrorCode::invalid_value, "", std::move(message), std::move(help)};
}

constexpr std::string_view kForms = "512,1024,3072 or 256..8192:x2 or 256..1024:+256";

// The number that `text` is the usual way of writing, if it is one.
std::optional<i64> number_of(std::string_view text) {
  i64 number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || std::to_string(number) != text)
    return std::nullopt;
  return number;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

// Items between commas; those inside brackets and quotes part nothing.
std::vector<std::string_view> split_values(std::string_view text) {
  std::vector<std::string_view> items;
  int depth = 0;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      ++depth;
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    } else if (!quoted && depth <= 0 && c == ',') {
      items.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  items.push_back(text.substr(begin));
  return items;
}

// "FIRST..LAST:+STEP" or "FIRST..LAST:xFACTOR"; both ends belong to it when the steps meet them.
Result<std::vector<AxisRun>> parse_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  const std::size_t colon = text.find(':', dots);
  const auto bad = [&](std::string_view why) {
    return refused(concat("range \"", text, "\" ", why), concat("write ", kForms));
  };
  if (colon == std::string_view::npos) return bad("has no step");
  const auto first = number_of(text.substr(0, dots));
  const auto last = number_of(text.substr(dots + 2, colon - dots - 2));
  const char sign = colon + 1 < text.size() ? text[colon + 1] : '\0';
  const auto step = sign == '\0' ? std::nullopt : number_of(text.substr(colon + 2));
  if (!first || !last || !step || (sign != '+' && sign != 'x')) return bad("is no range");
  if (*first < 0 || *first > *last) return bad("has no values");
  if (sign == '+') {
    if (*step < 1) return bad("never ends");
    return std::vector{AxisRun{true, *first, *step, (*last - *first) / *step + 1, {}}};
  }
  if (*step < 2 || *first < 1) return bad("never ends");
  std::vector<AxisRun> runs;
  for (i64 value = *first;; value *= *step) {
    runs.push_back({true, value, 0, 1, {}});
    if (value > *last / *step) return runs;
  }
}

Result<std::vector<AxisRun>> parse_item(std::string_view item, AxisKind kind) {
  const std::size_t dots = item.find("..");
  const bool is_range =
      dots != std::string_view::npos && (kind == AxisKind::pointer ? is_digits(item.substr(0, dots)) : true);
  if (is_range && kind != AxisKind::contract) return parse_range(item);
  if (const auto number = number_of(item)) return std::vector{AxisRun{true, *number, 0, 1, {}}};
  return std::vector{AxisRun{false, 0, 0, 1, std::string(item)}};
}

Status check_contract(std::string_view id) {
  if (find_contract(id)) return Ok{};
  std::vector<std::string_view> ids;
  for (const Contract& contract : contracts()) ids.push_back(contract.id);
  const auto near = did_you_mean(id, ids);
  return refused(concat("unknown contract \"", id, "\""),
                 near ? concat("did you mean \"", *near, "\"?") : concat("known: ", join(ids, ", ")));
}

// The values of a short name are within the limits of its field.
Status check_run(const AxisName& name, const AxisRun& run) {
  if (name.kind == AxisKind::contract)
    return check_contract(run.is_number ? std::to_string(run.first) : run.text);
  if (!run.is_number) {
    if (!name.word.empty() && run.text == name.word) return Ok{};
    return refused(concat(name.name, " takes numbers", name.word.empty() ? "" : concat(" or ", name.word),
                          ", got \"", shortened(run.text, 60), "\""),
                   concat("write ", name.name, "=", kForms));
  }
  const i64 last = run.first + run.step * (run.count - 1);
  if (run.first >= name.min && last <= name.max) return Ok{};
  return refused(concat(name.name, " must be ", name.min, "..", name.max, ", got ",
                        run.first < name.min ? run.first : last),
                 concat(name.name, ": ", name.doc));
}

// What stands in headers and keys: no text that would have to be quoted there.
bool is_plain_pointer(std::string_view pointer) {
  return std::ranges::all_of(pointer,
                             [](char c) { return c > ' ' && c < 0x7F && c != '"' && c != '\\' && c != ','; });
}

const AxisName* find_name(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name, &AxisName::name);
  return found == std::end(kNames) ? nullptr : found;
}

Error unknown_axis(std::string_view name) {
  std::vector<std::string_view> names;
  for (const AxisName& row : kNames) names.push_back(row.name);
  const auto near = did_you_mean(name, names);
  return refused(concat("unknown axis \"", shortened(name, 60), "\""),
                 near ? concat("did you mean \"", *near, "\"?")
                      : concat("one of ", join(names, ", "), ", or a JSON pointer such as ",
                               "/deployment/max_num_batched_tokens"));
}

}  // namespace

std::span<const AxisName> axis_names() { return kNames; }

AxisValue Axis::at(i64 index) const {
  MOEPLAN_CHECK(index >= 0 && index < size, "an axis has no such value");
  const AxisRun& run = *std::prev(std::ranges::upper_bound(runs, index, {}, &AxisRun::begin));
  return {run.is_number, run.first + run.step * (index - run.begin), run.text};
}

bool Axis::is_numeric() const { return std::ranges::all_of(runs, &AxisRun::is_number); }

Result<Axis> parse_axis(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return refused(concat("axis \"", shortened(text, 60), "\" has no values"),
                   "write NAME=VALUES, for example capacity=512,1024,3072");
  Axis axis;
  axis.name = text.substr(0, equals);
  const AxisName* row = find_name(axis.name);
  axis.kind = row ? row->kind : AxisKind::pointer;
  if (!row && (!axis.name.starts_with('/') || !is_plain_pointer(axis.name))) return unknown_axis(axis.name);
  for (const std::string_view item : split_values(text.substr(equals + 1))) {
    if (item.empty())
      return refused(concat("axis ", axis.name, " has an empty value"),
                     concat("write ", axis.name, "=", kForms));
    auto runs = parse_item(item, axis.kind);
    if (!runs) return runs.error();
    for (AxisRun& run : *runs) {
      if (row) {
        if (auto s = check_run(*row, run); !s) return s.error();
      }
      run.begin = axis.size;
      axis.size = run.count > kMostPoints - axis.size ? kMostPoints : axis.size + run.count;
      axis.runs.push_back(std::move(run));
    }
  }
  return axis;
}

i64 grid_points(std::span<const Axis> axes) {
  i64 points = 1;
  for (const Axis& axis : axes) points = points > kMostPoints / axis.size ? kMostPoints : points * axis.size;
  return points;
}

i64 axis_index(std::span<const Axis> axes, std::size_t axis, i64 point) {
  for (std::size_t i = axes.size() - 1; i > axis; --i) point /= axes[i].size;
  return point % axes[axis].size;
}

}  // namespace moeplan
