// moeplan batch: JSON lines in, JSON lines out, in order, in constant memory.
#include "cli/io/batch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/commands/finish.hpp"
#include "cli/io/line_reader.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

ExitCode run_batch(const BatchOptions& options) {
  constexpr std::size_t kLongestLine = std::size_t{256} << 10;
  const auto cannot_read = [&](int error_number) {
    const Problem problem{
        Error{ErrorCode::unreadable, "",
              concat("cannot read ", options.input, ": ", std::strerror(error_number)), "check the path"},
        {}};
    std::fputs(render_problems({&problem, 1}).c_str(), stderr);
    return ExitCode::input;
  };
  const int descriptor =
      options.input == "-" ? STDIN_FILENO : ::open(options.input.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return cannot_read(errno);

  LineReader reader(descriptor, kLongestLine);
  BatchAnswerer answerer;
  std::string out;
  bool any_error = false;
  i64 number = 0;
  while (const auto line = reader.next()) {
    ++number;
    if (!line->too_long && line->text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    out.clear();
    if (line->too_long) {
      answer_too_long(number, kLongestLine, out);
      any_error = true;
    } else if (!answerer.answer(line->text, number, out)) {
      any_error = true;
    }
    out += '\n';
    // Each answer leaves at once: whoever reads line by line must not wait, and a kill loses nothing
    // answered.
    if (const ExitCode code = print(out); code != ExitCode::ok) return code;
  }
  if (reader.error_number() != 0) return cannot_read(reader.error_number());
  return any_error && options.fail_on_error ? ExitCode::no : ExitCode::ok;
}

}  // namespace moeplan
