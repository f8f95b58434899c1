// Reading inputs and writing answers.
#pragma once

#include <string>
#include <string_view>

#include "planner/core/result.hpp"

namespace moeplan {

// The whole of a file, or of standard input for "-". At most kMaxInputBytes.
Result<std::string> read_text(const std::string& path);

// Writes all of `text` to standard output; an Error when it cannot be written. A reader that closed the pipe
// ends the process quietly.
Status write_out(std::string_view text);

}  // namespace moeplan
