// What moeplan is doing, on stderr, for whoever asks with -v.
#pragma once

#include <string_view>

namespace moeplan {

// 0: warnings; 1: what is done; 2: details.
void set_verbosity(int level);

// Lines as JSON objects, {"level", "message"}, in place of text.
void set_log_as_json(bool as_json);

void log_info(std::string_view message);
void log_debug(std::string_view message);

}  // namespace moeplan
