// Deployments for tests: the shipped GLM-5.2 config, changed as a case needs.
#pragma once

#include "cli/io/config.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

namespace moeplan::test {

inline Json glm52_json() { return Json::parse(read_source("configs/glm52.json")); }

inline Deployment deployment_of(const Json& config) {
  static const ConfigOverrides kNone;
  const auto read = parse_config("test", config.dump(2), kNone);
  for (const Problem& problem : read->problems)
    FAIL_CHECK(problem.error.pointer << " " << problem.error.message);
  REQUIRE(read->problems.empty());
  return read->deployment;
}

inline Deployment glm52() { return deployment_of(glm52_json()); }

// GLM-5.2 at 3.25 bits a weight, as most start logs run it.
inline Json glm52_mixed_json() {
  Json config = glm52_json();
  config["quant"].erase("bits");
  config["quant"]["tiers"] = Json::array({{{"bits", 3}, {"experts", 192}}, {{"bits", 4}, {"experts", 64}}});
  config["deployment"]["env"] = {{"VLLM_EXL3_TRELLIS_MAX_M", 6}};
  return config;
}

constexpr i64 kMiB = i64{1} << 20;
constexpr i64 kGiB = i64{1} << 30;

}  // namespace moeplan::test
