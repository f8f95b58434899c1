// Where an answer goes: -o FMT, FMT=PATH, or FMT+=PATH.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "cli/commands/options.hpp"

namespace moeplan {

// The output that `text` names, or what is wrong with it.
std::variant<Output, std::string> parse_output(std::string_view text);

// Why these outputs cannot be written together; "" when they can.
std::string conflict_of(std::span<const Output> outputs);

// Renders into one output and writes it.
Status write_output(const Output& output, std::span<const Report> reports, std::span<const Problem> problems,
                    const RenderOptions& options);

}  // namespace moeplan
