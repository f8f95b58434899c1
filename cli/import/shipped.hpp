// The models and devices that travel in the binary, and how names found in deployments match them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/import/import.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// A file of configs/models or configs/devices.
struct ShippedFile {
  std::string_view stem;  // "glm-5.2"
  std::string_view text;  // JSON
};
std::span<const ShippedFile> shipped_models();
std::span<const ShippedFile> shipped_devices();

// The shipped devices, read. Their files are ours: one that does not read is a bug.
std::vector<std::pair<std::string_view, DeviceSettings>> shipped_device_settings();

// The shipped model a deployment's model name or path means. Only names whose every word is understood match:
// "GLM-5.2-REAP-504B" is another model than GLM-5.2.
const ShippedFile* shipped_model_of(std::string_view name);

// Rows of the shipped model or device of that stem, or of a file of that form. False after a problem.
bool add_model(Import& import, const std::string& name_or_file, Rank rank);
bool add_device(Import& import, const std::string& name_or_file, Rank rank, RowKind kind, std::string from);

// Rows of the model that import.model_name means, assumed from the name, unless the name means none.
void assume_model(Import& import);

}  // namespace moeplan
