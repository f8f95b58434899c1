#include "cli/commands/config_key.hpp"

#include <filesystem>

namespace moeplan {

namespace fs = std::filesystem;

std::string repository_folder() {
  std::error_code ignored;
  const fs::path here = fs::current_path(ignored);
  for (fs::path folder = here; folder.has_relative_path(); folder = folder.parent_path()) {
    if (fs::exists(folder / ".git", ignored)) return folder.string();
  }
  return here.string();
}

std::string config_key(const std::string& path) {
  if (path == "-" || path == "stdin") return "stdin";
  std::error_code failed;
  // Links are followed: two names of one file are one config.
  fs::path full = fs::weakly_canonical(path, failed);
  if (failed) full = fs::absolute(path).lexically_normal();
  const fs::path root = fs::weakly_canonical(repository_folder(), failed);
  const fs::path relative = full.lexically_relative(root);
  const bool inside = !relative.empty() && *relative.begin() != "..";
  return (inside ? relative : full).generic_string();
}

}  // namespace moeplan
