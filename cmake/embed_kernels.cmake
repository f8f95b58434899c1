# Writes OUTPUT, the source that holds every text of the kernels, each under the name it is included by.
file(GLOB_RECURSE files RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/kernels/*.cu ${SOURCE_DIR}/kernels/*.cuh
     ${SOURCE_DIR}/kernels/*.hpp ${SOURCE_DIR}/planner/*/*geometry.hpp ${SOURCE_DIR}/planner/core/integer.hpp)
list(SORT files)
set(rows "")
foreach(file ${files})
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
