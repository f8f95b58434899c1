# Writes OUTPUT, the source that holds the shipped model and device files of SOURCE_DIR/configs as texts.
set(rows "")
foreach(kind models devices)
  file(GLOB files ${SOURCE_DIR}/configs/${kind}/*.json)
  list(SORT files)
  set(rows "${rows}\nconstexpr ShippedFile k_${kind}[] = {\n")
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WLE)
    file(READ ${file} text)
    set(rows "${rows}    {\"${stem}\", R\"shipped(${text})shipped\"},\n")
  endforeach()
  set(rows "${rows}};\n")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [=[
#include "cli/import/shipped.hpp"

namespace moeplan {
namespace {
@rows@
}  // namespace

std::span<const ShippedFile> shipped_models() { return k_models; }
std::span<const ShippedFile> shipped_devices() { return k_devices; }

}  // namespace moeplan
]=])
