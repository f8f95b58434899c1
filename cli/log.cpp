#include "cli/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

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

}  // namespace

void set_verbosity(int level) {
  logger().set_level(level <= 0   ? spdlog::level::warn
                     : level == 1 ? spdlog::level::info
                                  : spdlog::level::debug);
}

void log_info(std::string_view message) { logger().info("{}", printable(message)); }
void log_debug(std::string_view message) { logger().debug("{}", printable(message)); }

}  // namespace moeplan
