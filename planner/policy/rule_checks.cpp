#include "planner/policy/rule_checks.hpp"

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_rules.hpp"

namespace moeplan {

bool RuleCase::is_exl3_deployment() const { return subject.deployment.engine && is_exl3(subject.deployment); }

std::string mib(i64 bytes) {
  const i64 magnitude = bytes < 0 ? -bytes : bytes;
  const auto hundredths = static_cast<i64>((Wide{magnitude} * 100 + (i64{1} << 19)) >> 20);
  std::string cents = std::to_string(hundredths % 100);
  if (cents.size() < 2) cents.insert(0, 1, '0');
  return concat(bytes < 0 ? "-" : "", grouped(hundredths / 100), ".", cents, " MiB");
}

std::string per_cent(i64 growth, i64 before) {
  if (before <= 0) return "from nothing";
  const auto thousandths = static_cast<i64>((Wide{growth} * 1000 + before / 2) / before);  // rounded half up
  return concat("+", grouped(thousandths / 10), ".", thousandths % 10, "%");
}

std::string worth(const Snapshot& snapshot, i64 bytes) {
  const auto tokens = tokens_worth(snapshot, bytes);
  return tokens ? concat(", worth ", grouped(*tokens), " KV tokens a rank") : std::string();
}

std::string changed_field(const Difference& difference, std::string_view fallback) {
  for (std::string_view section :
       {"/deployment/", "/plans/", "/quant/", "/parallel/", "/model/", "/device/", "/contract"}) {
    for (const SettingChange& change : difference.settings) {
      if (change.pointer.starts_with(section)) return change.pointer;
    }
  }
  return std::string(fallback);
}

std::string changes_text(const Difference& difference) {
  std::vector<std::string> parts;
  for (const SettingChange& change : difference.settings) {
    if (parts.size() == 3) {
      parts.push_back("…");
      break;
    }
    parts.push_back(concat(change.pointer, " ", change.value.before.value_or("not set"), " -> ",
                           change.value.after.value_or("not set")));
  }
  return join(parts, ", ");
}

std::string scratch_field(const RuleCase& c) {
  return c.subject.deployment.engine ? "/deployment/max_num_batched_tokens" : "/plans";
}

}  // namespace moeplan
