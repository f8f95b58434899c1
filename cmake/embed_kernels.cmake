# Writes OUTPUT, the source that holds the texts FILES of SOURCE_DIR, each under the name it is included by.
set(rows "")
foreach(file ${FILES})
  file(READ ${SOURCE_DIR}/${file} text)
  set(rows "${rows}    {\"${file}\", R\"kernel(${text})kernel\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [=[
#include "runtime/jit/kernel_sources.hpp"

namespace moeplan {
namespace {
constexpr SourceText kTexts[] = {
@rows@};
}  // namespace

std::span<const SourceText> embedded_sources() { return kTexts; }

}  // namespace moeplan
]=])
