// The sources of `moeplan import`: each reads one kind of file or command into rows. Mistakes and notes go to
// the import.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/import/import.hpp"

namespace moeplan {

// A Hugging Face config.json, or the folder that holds it.
void import_hf(Import& import, const std::string& path);
void import_hf_text(Import& import, std::string_view name, std::string_view text);

// The header of a .safetensors file, or the index of a checkpoint and the headers it names. No weights are
// read.
void import_safetensors(Import& import, const std::string& path);
// A header's JSON, as it stands behind the length.
void import_safetensors_header(Import& import, std::string_view name, std::string_view json, bool is_whole);

// The words of an engine's command line.
void import_vllm_words(Import& import, std::vector<std::string> words, std::string_view name = "command");
// A shell script, or the words on one line, that starts an engine.
void import_vllm(Import& import, const std::string& path);
void import_vllm_text(Import& import, std::string_view name, std::string_view text);

// A dotenv file.
void import_env(Import& import, const std::string& path);
void import_env_text(Import& import, std::string_view name, std::string_view text);

// A service of a compose file. Files it names are read when they stay in its folder.
void import_compose(Import& import, const std::string& path, const std::string& service);
// `folder` is where named files are looked up; "" refuses them all.
void import_compose_text(Import& import, std::string_view name, std::string_view text,
                         const std::string& folder, const std::string& service);

// A Deployment, StatefulSet, LeaderWorkerSet or Pod; `object` chooses by metadata.name.
void import_k8s(Import& import, const std::string& path, const std::string& object);
void import_k8s_text(Import& import, std::string_view name, std::string_view text, const std::string& object);

// What an engine printed at start: engine_log.hpp reads it, this makes rows of it.
void import_log(Import& import, const std::string& path);

// The whole of a file of at most kMaxInputBytes; empty after a problem.
std::string_view read_source(Import& import, const std::string& path, bool* fine);

}  // namespace moeplan
