// One spelling a config, whatever folder or form its path was given in: baselines and waivers know configs by
// it.
#pragma once

#include <string>

namespace moeplan {

// The folder of the repository that holds the working folder, else the working folder; absolute.
std::string repository_folder();

// `path` relative to that folder, with "/" between parts; absolute where it lies elsewhere. "stdin" stays.
std::string config_key(const std::string& path);

}  // namespace moeplan
