# Writes OUTPUT, the source that says what this build was made of, when its content changes.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE git OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR git STREQUAL "")
  set(git unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [=[
#include "cli/build_info.hpp"

namespace moeplan {

const BuildInfo kBuildInfo{.version = "@VERSION@",
                           .git = "@git@",
                           .compiler = "@COMPILER@",
                           .build_type = "@BUILD_TYPE@",
                           .libraries = "@LIBRARIES@"};

}  // namespace moeplan
]=])
