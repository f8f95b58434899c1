#include "cli/io/decimal.hpp"

#include <utility>

#include "planner/core/wide.hpp"

namespace moeplan {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<i64> scaled_decimal(std::string_view text, i64 scale) {
  constexpr i64 kLargest = i64{1} << 62;
  Wide digits = 0;
  i64 divisor = 1;
  bool behind_point = false;
  bool any_digit = false;
  for (char c : text) {
    if (c == '.' && !behind_point && any_digit) {
      behind_point = true;
      any_digit = false;
      continue;
    }
    if (!is_digit(c)) return std::nullopt;
    any_digit = true;
    digits = digits * 10 + (c - '0');
    if (behind_point) divisor *= 10;
    if (digits > kLargest || divisor > 1'000'000'000) return std::nullopt;
  }
  if (!any_digit) return std::nullopt;
  const Wide rounded = (2 * digits * scale + divisor) / (2 * Wide{divisor});
  if (rounded > kLargest) return std::nullopt;
  return static_cast<i64>(rounded);
}

namespace {

// A size text taken apart: the decimal, and the bytes of its unit.
struct SizeText {
  std::string_view number;
  i64 unit;
};

std::optional<SizeText> split_size(std::string_view text) {
  constexpr std::pair<std::string_view, i64> kUnits[] = {
      {"KiB", i64{1} << 10}, {"MiB", i64{1} << 20}, {"GiB", i64{1} << 30}, {"TiB", i64{1} << 40}, {"B", 1}};
  for (const auto& [unit, bytes] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    return SizeText{text, bytes};
  }
  return std::nullopt;
}

}  // namespace

std::optional<i64> parse_byte_size(std::string_view text) {
  const auto size = split_size(text);
  return size ? scaled_decimal(size->number, size->unit) : std::nullopt;
}

std::optional<ByteRange> parse_printed_bytes(std::string_view text) {
  const auto bytes = parse_byte_size(text);
  if (!bytes) return std::nullopt;
  const SizeText size = *split_size(text);
  if (size.unit == 1) return exactly(*bytes);
  // The number without its point counts steps of one last digit; half a step is unit / (2 * steps a unit).
  i64 steps_a_unit = 1;
  Wide steps = 0;
  bool behind_point = false;
  for (char c : size.number) {
    if (c == '.') {
      behind_point = true;
      continue;
    }
    steps = steps * 10 + (c - '0');
    if (behind_point) steps_a_unit *= 10;
  }
  const Wide divisor = 2 * Wide{steps_a_unit};
  const Wide low = (2 * steps - 1) * size.unit, high = (2 * steps + 1) * size.unit;
  return ByteRange{low < 0 ? 0 : static_cast<i64>(low / divisor),
                   static_cast<i64>((high + divisor - 1) / divisor)};
}

}  // namespace moeplan
