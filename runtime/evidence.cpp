#include "runtime/evidence.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "planner/core/text.hpp"
#include "runtime/jit/digest.hpp"
#include "runtime/jit/kernel_sources.hpp"

namespace moeplan {
namespace {

constexpr std::uint64_t kLargest = std::numeric_limits<i64>::max();

using Json = nlohmann::ordered_json;

Json json_of(const Digest& digest) { return {{"name", digest.name}, {"sha256", digest.sha256}}; }

Json json_of(const EvidenceKernel& kernel) {
  Json sources = Json::array();
  for (const Digest& source : kernel.sources) sources.push_back(json_of(source));
  return {{"variant", kernel.variant},
          {"architecture", kernel.architecture},
          {"cubin_sha256", kernel.cubin_sha256},
          {"sources", std::move(sources)}};
}

Json json_of(const EvidenceSamples& samples) {
  return {{"name", samples.name}, {"unit", samples.unit}, {"values", samples.values}};
}

Json json_of(const EvidenceFact& fact) {
  Json value = std::visit([](const auto& held) { return Json(held); }, fact.value);
  return {{"name", fact.name}, {"value", std::move(value)}};
}

template <class Items>
Json array_of(const Items& items) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(json_of(item));
  return array;
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Takes a record apart. The first thing that is wrong is kept; what is read behind it is not used.
class Reader {
 public:
  Result<Evidence> read(const Json& json) {
    Evidence evidence;
    check_members(json, "",
                  {"schema", "name", "command", "config", "device", "nvrtc", "kernels", "samples", "facts",
                   "verdict", "status", "stale_reason"});
    if (error_) return *error_;
    choice(json, "", "schema", {kEvidenceSchema});
    evidence.name = text(json, "", "name");
    evidence.command = text(json, "", "command");
    if (!json["config"].is_null()) evidence.config = digest(json["config"], "/config");
    evidence.device = device(json["device"]);
    evidence.nvrtc = text(json, "", "nvrtc");
    each(json, "", "kernels", [&](const Json& item, const std::string& place) {
      evidence.kernels.push_back(kernel(item, place));
    });
    each(json, "", "samples", [&](const Json& item, const std::string& place) {
      evidence.samples.push_back(samples(item, place));
    });
    each(json, "", "facts",
         [&](const Json& item, const std::string& place) { evidence.facts.push_back(fact(item, place)); });
    evidence.is_pass = choice(json, "", "verdict", {"PASS", "FAIL"}) == "PASS";
    if (choice(json, "", "status", {"current", "stale"}) == "stale") {
      evidence.stale_reason = text(json, "", "stale_reason");
    } else if (!json["stale_reason"].is_null()) {
      fail(ErrorCode::invalid_value, "/stale_reason", "a current record has no reason to be stale");
    }
    // A record that depends on no text would never be told that it is out of date.
    if (evidence.kernels.empty()) fail(ErrorCode::invalid_value, "/kernels", "names no kernel");
    if (error_) return *error_;
    return evidence;
  }

 private:
  void fail(ErrorCode code, std::string pointer, std::string message) {
    if (!error_) error_ = Error{code, std::move(pointer), std::move(message), ""};
  }

  // Whether `json` is an object with these members and no other.
  bool check_members(const Json& json, const std::string& place,
                     std::initializer_list<std::string_view> members) {
    if (!json.is_object()) {
      fail(ErrorCode::wrong_type, place, "must be an object");
      return false;
    }
    for (const std::string_view member : members) {
      if (!json.contains(member)) {
        fail(ErrorCode::missing_field, concat(place, "/", member), "is missing");
        return false;
      }
    }
    for (const auto& [key, value] : json.items()) {
      if (std::ranges::find(members, std::string_view(key)) == members.end()) {
        fail(ErrorCode::unknown_key, concat(place, "/", key), "is no member of a record");
        return false;
      }
    }
    return true;
  }

  std::string text(const Json& object, const std::string& place, std::string_view member) {
    const Json& value = object[member];
    if (!value.is_string()) {
      fail(ErrorCode::wrong_type, concat(place, "/", member), "must be a text");
      return "";
    }
    std::string held = value.get<std::string>();
    if (held.empty()) fail(ErrorCode::invalid_value, concat(place, "/", member), "must not be empty");
    return held;
  }

  std::string choice(const Json& object, const std::string& place, std::string_view member,
                     std::initializer_list<std::string_view> choices) {
    std::string held = text(object, place, member);
    if (std::ranges::find(choices, std::string_view(held)) == choices.end())
      fail(ErrorCode::unknown_value, concat(place, "/", member),
           concat("must be ", join(choices, ", ", " or "), ", got ", held));
    return held;
  }

  std::string sha256(const Json& object, const std::string& place, std::string_view member) {
    std::string held = text(object, place, member);
    if (!is_sha256(held))
      fail(ErrorCode::invalid_value, concat(place, "/", member), "must be 64 hexadecimal digits");
    return held;
  }

  i64 integer(const Json& value, const std::string& place) {
    const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > kLargest;
    if (!value.is_number_integer() || is_too_large) {
      fail(ErrorCode::wrong_type, place, "must be an integer");
      return 0;
    }
    return value.get<i64>();
  }

  template <class Take>
  void each(const Json& object, const std::string& place, std::string_view member, const Take& take) {
    const Json& items = object[member];
    const std::string at = concat(place, "/", member);
    if (!items.is_array()) return fail(ErrorCode::wrong_type, at, "must be an array");
    for (std::size_t i = 0; i < items.size(); ++i) take(items[i], concat(at, "/", i));
  }

  Digest digest(const Json& json, const std::string& place) {
    if (!check_members(json, place, {"name", "sha256"})) return {};
    return {text(json, place, "name"), sha256(json, place, "sha256")};
  }

  EvidenceDevice device(const Json& json) {
    const std::string place = "/device";
    if (!check_members(json, place, {"name", "compute_capability", "sm_count", "driver", "cuda_runtime"}))
      return {};
    return {.name = text(json, place, "name"),
            .compute_capability = text(json, place, "compute_capability"),
            .sm_count = integer(json["sm_count"], "/device/sm_count"),
            .driver = text(json, place, "driver"),
            .cuda_runtime = text(json, place, "cuda_runtime")};
  }

  EvidenceKernel kernel(const Json& json, const std::string& place) {
    if (!check_members(json, place, {"variant", "architecture", "cubin_sha256", "sources"})) return {};
    EvidenceKernel kernel{.variant = text(json, place, "variant"),
                          .architecture = text(json, place, "architecture"),
                          .cubin_sha256 = sha256(json, place, "cubin_sha256")};
    each(json, place, "sources",
         [&](const Json& item, const std::string& at) { kernel.sources.push_back(digest(item, at)); });
    if (kernel.sources.empty()) fail(ErrorCode::invalid_value, concat(place, "/sources"), "names no source");
    return kernel;
  }

  EvidenceSamples samples(const Json& json, const std::string& place) {
    if (!check_members(json, place, {"name", "unit", "values"})) return {};
    EvidenceSamples samples{.name = text(json, place, "name"), .unit = text(json, place, "unit")};
    each(json, place, "values",
         [&](const Json& item, const std::string& at) { samples.values.push_back(integer(item, at)); });
    return samples;
  }

  EvidenceFact fact(const Json& json, const std::string& place) {
    if (!check_members(json, place, {"name", "value"})) return {};
    EvidenceFact fact{.name = text(json, place, "name")};
    const Json& value = json["value"];
    if (value.is_number_integer()) {
      fact.value = value.get<i64>();
    } else if (value.is_number_float()) {
      fact.value = value.get<double>();
    } else {
      fact.value = text(json, place, "value");
    }
    return fact;
  }

  std::optional<Error> error_;
};

}  // namespace

Result<EvidenceKernel> evidence_kernel(const KernelVariant& variant, const Architecture& architecture,
                                       const CompiledKernel& compiled,
                                       const RuntimeEnvironment& environment) {
  const auto source = kernel_source(row_of(variant.kernel).source, environment);
  if (!source) return source.error();
  EvidenceKernel kernel{.variant = text_of(variant),
                        .architecture = std::string(architecture.name),
                        .cubin_sha256 = sha256_hex(compiled.cubin)};
  kernel.sources.push_back({source->main.name, sha256_hex(source->main.text)});
  for (const KernelSource::Text& header : source->headers)
    kernel.sources.push_back({header.name, sha256_hex(header.text)});
  return kernel;
}

std::string evidence_json(const Evidence& evidence) {
  const EvidenceDevice& device = evidence.device;
  const Json json = {{"schema", kEvidenceSchema},
                     {"name", evidence.name},
                     {"command", evidence.command},
                     {"config", evidence.config ? json_of(*evidence.config) : Json(nullptr)},
                     {"device",
                      {{"name", device.name},
                       {"compute_capability", device.compute_capability},
                       {"sm_count", device.sm_count},
                       {"driver", device.driver},
                       {"cuda_runtime", device.cuda_runtime}}},
                     {"nvrtc", evidence.nvrtc},
                     {"kernels", array_of(evidence.kernels)},
                     {"samples", array_of(evidence.samples)},
                     {"facts", array_of(evidence.facts)},
                     {"verdict", evidence.is_pass ? "PASS" : "FAIL"},
                     {"status", evidence.stale_reason ? "stale" : "current"},
                     {"stale_reason", evidence.stale_reason ? Json(*evidence.stale_reason) : Json(nullptr)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Evidence> read_evidence(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return Error{ErrorCode::invalid_json, "", "the record is not JSON", ""};
  return Reader().read(parsed);
}

namespace {

// Names of the texts that the kernel of a variant's text is made of today; none: there is no such kernel.
std::vector<std::string> texts_of(std::string_view variant) {
  const std::string_view name = variant.substr(0, variant.find(' '));
  const auto row = std::ranges::find(kernel_catalog(), name, &KernelRow::name);
  if (row == kernel_catalog().end()) return {};
  const auto source = kernel_source(row->source, {});
  if (!source) return {};
  std::vector<std::string> names = {source->main.name};
  for (const KernelSource::Text& header : source->headers) names.push_back(header.name);
  return names;
}

}  // namespace

std::vector<std::string> stale_sources(const Evidence& evidence) {
  std::vector<std::string> stale;
  for (const EvidenceKernel& kernel : evidence.kernels) {
    const std::vector<std::string> texts = texts_of(kernel.variant);
    if (texts.empty()) stale.push_back(kernel.variant);
    for (const std::string& text : texts) {
      if (std::ranges::find(kernel.sources, text, &Digest::name) == kernel.sources.end())
        stale.push_back(text);
    }
    for (const Digest& source : kernel.sources) {
      const auto embedded = std::ranges::find(embedded_sources(), source.name, &SourceText::name);
      if (embedded == embedded_sources().end() || sha256_hex(embedded->text) != source.sha256)
        stale.push_back(source.name);
    }
  }
  std::ranges::sort(stale);
  stale.erase(std::ranges::unique(stale).begin(), stale.end());
  return stale;
}

}  // namespace moeplan
