// Pieces of text that every format for people shares.
#pragma once

#include <string>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

// Bytes in MiB with two decimals, rounded half up: "1,054.16".
std::string mebibytes(i64 bytes);

// Characters, not bytes.
i64 display_width(std::string_view text);

// The text with control bytes and broken UTF-8 escaped as \xNN, so that no input can steer a terminal.
std::string printable(std::string_view text);

}  // namespace moeplan
