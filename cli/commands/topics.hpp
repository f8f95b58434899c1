// What `moeplan help TOPIC` explains: one row a topic.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moeplan {

struct Topic {
  std::string_view name;
  std::string_view question;
  std::string (*text)();
  std::string_view man_section = {};  // its heading in the manual page; "" where it is not part of it
};
std::span<const Topic> topics();
std::vector<std::string> topic_names();

}  // namespace moeplan
