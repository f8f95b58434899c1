#include "cli/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "cli/io/json_writer.hpp"
#include "cli/render/text.hpp"

namespace moeplan {
namespace {

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("moeplan", std::make_shared<spdlog::sinks::stderr_sink_st>());
    made.set_pattern("[%l] %v");
    made.set_level(spdlog::level::warn);
    return made;
  }();
  return instance;
}

bool log_is_json = false;

std::string line_of(std::string_view level, std::string_view message) {
  if (!log_is_json) return printable(message);
  std::string out;
  JsonWriter(out).begin_object().member("level", level).member("message", message).end_object();
  return out;
}

}  // namespace

void set_verbosity(int level) {
  logger().set_level(level <= 0   ? spdlog::level::warn
                     : level == 1 ? spdlog::level::info
                                  : spdlog::level::debug);
}

void set_log_as_json(bool as_json) {
  log_is_json = as_json;
  logger().set_pattern(as_json ? "%v" : "[%l] %v");
}

void log_info(std::string_view message) { logger().info("{}", line_of("info", message)); }
void log_debug(std::string_view message) { logger().debug("{}", line_of("debug", message)); }

}  // namespace moeplan
