// Evidence: what a run on a GPU showed, with all that is needed to run it again and to see when the kernels
// it ran are no longer the ones in this binary. Files of schema moeplan.evidence/1.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"
#include "runtime/environment.hpp"
#include "runtime/jit/architecture.hpp"
#include "runtime/jit/compiled_kernel.hpp"
#include "runtime/jit/kernel_catalog.hpp"

namespace moeplan {

inline constexpr std::string_view kEvidenceSchema = "moeplan.evidence/1";

// A text or file, and the SHA-256 of its bytes.
struct Digest {
  std::string name;
  std::string sha256;
  bool operator==(const Digest&) const = default;
};

struct EvidenceDevice {
  std::string name;
  std::string compute_capability;
  i64 sm_count = 0;
  std::string driver;  // its version, and the newest CUDA it takes
  std::string cuda_runtime;
  bool operator==(const EvidenceDevice&) const = default;
};

struct EvidenceKernel {
  std::string variant;  // text_of(KernelVariant)
  std::string architecture;
  std::string cubin_sha256;
  std::vector<Digest> sources;  // the kernel's text and every text it includes
  bool operator==(const EvidenceKernel&) const = default;
};

// Every raw value of one measured thing, in the order of measuring.
struct EvidenceSamples {
  std::string name;
  std::string unit;
  std::vector<i64> values;
  bool operator==(const EvidenceSamples&) const = default;
};

// A figure or a text that follows from the samples or stands beside them.
struct EvidenceFact {
  std::string name;
  std::variant<i64, double, std::string> value;
  bool operator==(const EvidenceFact&) const = default;
};

struct Evidence {
  std::string name;
  std::string command;           // runs it again
  std::optional<Digest> config;  // none: the record's program makes its own plan
  EvidenceDevice device;
  std::string nvrtc;  // "13.0"
  std::vector<EvidenceKernel> kernels;
  std::vector<EvidenceSamples> samples;
  std::vector<EvidenceFact> facts;
  bool is_pass = false;
  // Why the record no longer speaks for this source, said by whoever changed it and had no GPU. None:
  // current.
  std::optional<std::string> stale_reason;
  bool operator==(const Evidence&) const = default;
};

// The kernel of a record, with digests of the texts it was compiled from. Error: a text is missing.
Result<EvidenceKernel> evidence_kernel(const KernelVariant& variant, const Architecture& architecture,
                                       const CompiledKernel& compiled, const RuntimeEnvironment& environment);

// JSON, two spaces an indent, members in a fixed order, a newline at the end.
std::string evidence_json(const Evidence& evidence);

// Reads what evidence_json writes. Error `invalid_json`, `missing_field`, `unknown_key`, `wrong_type`,
// `unknown_value` or `invalid_value`, with the place.
Result<Evidence> read_evidence(std::string_view json);

// Names of the sources whose text in this binary is another than the record's, or not there, and of texts
// that the record's kernels are made of and it does not list; sorted, each once. Texts that the record does
// not depend on do not count.
std::vector<std::string> stale_sources(const Evidence& evidence);

}  // namespace moeplan
