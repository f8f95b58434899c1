// Any text as any source of an import: it becomes rows or is refused with a place, never more. The first byte
// chooses the source.
#include <cstdint>
#include <string>

#include "cli/import/engine_log.hpp"
#include "cli/import/shipped.hpp"
#include "cli/import/sources.hpp"
#include "cli/io/json_document.hpp"
#include "planner/core/check.hpp"

using namespace moeplan;

namespace {

void read(Import& import, char source, std::string_view text) {
  switch (source) {
    case 'h':
      return import_hf_text(import, "fuzz", text);
    case 't':
      return import_safetensors_header(import, "fuzz", text, true);
    case 'v':
      return import_vllm_text(import, "fuzz", text);
    case 'c':
      return import_compose_text(import, "fuzz", text, "", "");
    case 'k':
      return import_k8s_text(import, "fuzz", text, "");
    case 'e':
      return import_env_text(import, "fuzz", text);
    default: {
      EngineLogReader reader("fuzz");
      reader.feed(text.substr(0, text.size() / 2));
      reader.feed(text.substr(text.size() / 2));
      return import_engine_log(import, reader.finish());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Import import;
  read(import, static_cast<char>(data[0]), text);
  assume_model(import);
  settle(import);
  for (const Problem& problem : import.problems)
    MOEPLAN_CHECK(!problem.error.message.empty(), "an error without a message");
  const std::string config = write_config(import);
  JsonDocument document;
  MOEPLAN_CHECK(static_cast<bool>(document.parse(config, "config")), "a config that is no JSON");
  MOEPLAN_CHECK(!provenance_table(import).empty(), "a table without a head");
  return 0;
}
