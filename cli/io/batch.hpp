// One line of `moeplan batch`: a request in, a response out.
#pragma once

#include <string>
#include <string_view>

#include "cli/io/json_document.hpp"

namespace moeplan {

// Answers requests one at a time; keeps its memory between them.
class BatchAnswerer {
 public:
  // Appends the response to `text`, without a newline, to `out`. False when it is an error response.
  bool answer(std::string_view text, i64 line, std::string& out);

 private:
  JsonDocument document_;
};

// The error response to a line that was too long to read.
void answer_too_long(i64 line, std::size_t limit, std::string& out);

}  // namespace moeplan
