#include "cli/render/markup.hpp"

#include <algorithm>
#include <utility>

#include "cli/render/text.hpp"

namespace moeplan {

std::string markup(std::string_view text) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string out;
  const std::string safe = printable(text);
  for (std::size_t i = 0; i < safe.size(); ++i) {
    const std::string_view rest = std::string_view(safe).substr(i);
    const auto* entity = std::ranges::find(kEntities, safe[i], &std::pair<char, std::string_view>::first);
    if (rest.starts_with("\xEF\xBF\xBE") || rest.starts_with("\xEF\xBF\xBF")) {
      out += rest[2] == '\xBE' ? "\\xef\\xbf\\xbe" : "\\xef\\xbf\\xbf";
      i += 2;
    } else if (entity != std::end(kEntities)) {
      out += entity->second;
    } else {
      out += safe[i];
    }
  }
  return out;
}

}  // namespace moeplan
