// Which layout contract an engine build runs, as rows of data.
#pragma once

#include <span>
#include <string_view>

namespace moeplan {

struct EngineContract {
  std::string_view marker;    // stands in the build's version text
  std::string_view contract;  // id
};
std::span<const EngineContract> engine_contracts();

// Builds without a marker are planned under this contract, as an assumption.
inline constexpr std::string_view kAssumedContract = "sparkinfer-de04125";

// The contract of that build, or "".
std::string_view contract_of_engine(std::string_view version);

}  // namespace moeplan
