#include "cli/commands/gpu_table.hpp"

#include <utility>

namespace moeplan {

Table gpu_table(std::string key, std::string title, std::span<const GpuMemory> gpus) {
  Table table;
  table.key = std::move(key);
  table.title = std::move(title);
  table.columns = {{"index", "GPU", ColumnKind::count},
                   {"name", ""},
                   {"total_bytes", "TOTAL", ColumnKind::bytes},
                   {"free_bytes", "FREE", ColumnKind::bytes}};
  for (std::size_t i = 0; i < gpus.size(); ++i)
    table.rows.push_back({{static_cast<i64>(i), gpus[i].name, gpus[i].total_bytes, gpus[i].free_bytes}, {}});
  return table;
}

}  // namespace moeplan
