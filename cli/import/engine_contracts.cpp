#include "cli/import/engine_contracts.hpp"

namespace moeplan {
namespace {

// The first marker found holds: commits before releases.
constexpr EngineContract kContracts[] = {
    {"de04125", "sparkinfer-de04125"},
    {"c2f135c", "sparkinfer-c2f135c"},
    {"36bce2c", "b12x-36bce2c"},
    // Releases of the EXL3 image by their last version part.
    {".r12", "sparkinfer-de04125"},
    {".r14", "sparkinfer-de04125"},
};

bool is_word_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::span<const EngineContract> engine_contracts() { return kContracts; }

std::string_view contract_of_engine(std::string_view version) {
  for (const EngineContract& row : kContracts) {
    const auto at = version.find(row.marker);
    if (at == std::string_view::npos) continue;
    // ".r12" is not ".r120"; a commit may go on with more digits.
    const auto end = at + row.marker.size();
    if (row.marker[0] == '.' && end < version.size() && is_word_char(version[end])) continue;
    return row.contract;
  }
  return "";
}

}  // namespace moeplan
