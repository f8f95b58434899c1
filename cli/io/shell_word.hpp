// Texts as words of a POSIX shell.
#pragma once

#include <string>
#include <string_view>

namespace moeplan {

// In single quotes, whatever it is; a quote inside is spelt '\''.
inline std::string single_quoted(std::string_view text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

// Quoted where it has to be.
inline std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  return single_quoted(text);
}

}  // namespace moeplan
