// Any line as a batch request: exactly one line of JSON comes back, and the same one again.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/io/batch.hpp"
#include "planner/core/check.hpp"

using namespace moeplan;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static BatchAnswerer answerer;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  std::string once, again;
  const bool fine = answerer.answer(line, 1, once);
  MOEPLAN_CHECK(answerer.answer(line, 1, again) == fine && once == again, "the same line, another answer");
  MOEPLAN_CHECK(once.find('\n') == std::string::npos, "an answer of several lines");
  const auto parsed = nlohmann::json::parse(once, nullptr, false);
  MOEPLAN_CHECK(!parsed.is_discarded() && parsed.contains(fine ? "layout" : "error"),
                "an answer that is no JSON");
  return 0;
}
