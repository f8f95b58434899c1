#include "cli/commands/tensor_table.hpp"

#include <span>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// A row for people with a name and bytes alone.
Row footer(const Table& table, std::string name, i64 bytes) {
  Row row{std::vector<Cell>(table.columns.size()), {}};
  row.cells[0] = std::move(name);
  row.cells[table.column("bytes")] = bytes;
  return row;
}

}  // namespace

Table tensor_table(std::string_view title, const ArenaLayout& arena, i64 total_bytes, TensorRemark remark,
                   const void* about) {
  Table table;
  table.key = "tensors";
  table.title = title;
  table.columns = {{"name", "TENSOR"},
                   {"dtype", "DTYPE"},
                   {"region", "REGION", ColumnKind::text, Audience::programs},
                   {"shape", "SHAPE", ColumnKind::text, Audience::programs},
                   {"elements", "ELEMENTS", ColumnKind::count, Audience::programs},
                   {"formula", "FORMULA", ColumnKind::text, Audience::programs},
                   {"offset", "OFFSET", ColumnKind::count},
                   {"bytes", "BYTES", ColumnKind::bytes, Audience::everyone, true},
                   {"bound", "BOUND", ColumnKind::text, Audience::programs},
                   {"remark", "", ColumnKind::text, Audience::people}};
  table.people_sort_by = static_cast<int>(table.column("bytes"));
  i64 tensor_bytes = 0;
  for (const TensorSpec& t : arena.tensors) {
    const auto dims = std::span(t.shape.dims, static_cast<std::size_t>(t.shape.rank));
    tensor_bytes += t.bytes;
    table.rows.push_back(
        {{std::string(t.name), std::string(name_of(t.dtype)), std::string(name_of(t.region)),
          std::vector<i64>(dims.begin(), dims.end()), t.shape.elements(), std::string(t.formula), t.offset,
          t.bytes, std::string(name_of(t.bound)), std::string(remark(t, about))},
         {}});
  }
  table.footers.push_back(footer(table, "alignment padding", arena.end - tensor_bytes));
  if (total_bytes > arena.end)
    table.footers.push_back(footer(table, "behind the last tensor", total_bytes - arena.end));
  table.footers.push_back(footer(table, "total", total_bytes));
  return table;
}

}  // namespace moeplan
