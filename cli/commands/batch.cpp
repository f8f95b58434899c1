// moeplan batch: JSON lines in, JSON lines out, in order, in constant memory.
#include "cli/io/batch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/commands/options.hpp"
#include "cli/io/line_reader.hpp"
#include "cli/io/text_file.hpp"

namespace moeplan {

ExitCode run_batch(const BatchOptions& options) {
  constexpr std::size_t kLongestLine = std::size_t{256} << 10;
  const auto fail = [](const std::string& message) {
    std::fprintf(stderr, "error[unreadable]: %s\n", message.c_str());
    return ExitCode::input;
  };
  const int descriptor =
      options.input == "-" ? STDIN_FILENO : ::open(options.input.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return fail("cannot read " + options.input + ": " + std::strerror(errno));

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
    if (auto s = write_out(out); !s) return fail(s.error().message);
  }
  if (reader.error_number() != 0)
    return fail("cannot read " + options.input + ": " + std::strerror(reader.error_number()));
  return any_error && options.fail_on_error ? ExitCode::no : ExitCode::ok;
}

}  // namespace moeplan
