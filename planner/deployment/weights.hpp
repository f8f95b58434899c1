// Weights of one rank, part by part. A model: engines add workspaces at load, so the total is known to 2.5 %
// and a stated figure replaces it. Source: docs/memory.md section 1.
#pragma once

#include <string>
#include <vector>

#include "planner/core/byte_range.hpp"
#include "planner/core/result.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// Bytes of one routed expert of one layer on one rank, with its scales, signs and pointers.
i64 exl3_expert_bytes(i64 hidden, i64 intermediate_per_rank, i64 bits);

struct WeightPart {
  std::string name;
  ByteRange bytes;  // a range where a storage type is not known
};

struct Weights {
  std::vector<WeightPart> parts;

  ByteRange formula_bytes() const;
  // formula_bytes within 2.5 % either way, which covers every engine log seen.
  ByteRange bytes() const;
};

// What the routed experts are stored as, or an error that points at what is missing.
Result<WeightFormat> weight_format_of(const Deployment& deployment);

Result<Weights> weights_of(const Deployment& deployment);

}  // namespace moeplan
