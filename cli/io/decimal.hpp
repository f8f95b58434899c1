// Exact decimals: sizes such as "95.01 GiB" and ratios such as 0.92 without floating point.
#pragma once

#include <optional>
#include <string_view>

#include "planner/core/byte_range.hpp"
#include "planner/core/integer.hpp"

namespace moeplan {

// round(text * scale) for a plain decimal such as "0.92" or "3"; none when it is something else, has more
// than 9 decimals, or does not fit. 1 <= scale <= 2^50.
std::optional<i64> scaled_decimal(std::string_view text, i64 scale);

// Bytes of "95.01 GiB", "512 MiB", "7 KiB" or "1024 B"; none when it is something else.
std::optional<i64> parse_byte_size(std::string_view text);

// The bytes that such a text can stand for: half of its last digit either way, not below 0, rounded outwards.
// A text in whole bytes ("B") is exact.
std::optional<ByteRange> parse_printed_bytes(std::string_view text);

}  // namespace moeplan
