// Pieces of text that every format for people shares.
#pragma once

#include <string>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

// Bytes in a unit of so many, with two decimals, rounded half up: "1,054.16".
std::string in_units(i64 bytes, i64 unit);
std::string mebibytes(i64 bytes);

// Columns that a terminal gives the text: two for a wide character, none for one that combines.
i64 display_width(std::string_view text);

// The text with control characters and broken UTF-8 escaped as \xNN, so that no input can steer a terminal,
// nor a workflow runner, which reads "::" at a line's start and "##[" anywhere as its commands.
std::string printable(std::string_view text);

}  // namespace moeplan
