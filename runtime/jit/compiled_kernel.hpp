// CompiledKernel: a cubin with what it takes of a multiprocessor.
#pragma once

#include <string>

#include "planner/core/integer.hpp"

namespace moeplan {

// As the assembler reports them, a thread or a block.
struct KernelResources {
  i64 registers = 0;            // a thread
  i64 stack_bytes = 0;          // a thread
  i64 spill_store_bytes = 0;    // a thread
  i64 spill_load_bytes = 0;     // a thread
  i64 static_shared_bytes = 0;  // a block
  bool operator==(const KernelResources&) const = default;
};

struct CompiledKernel {
  std::string key;  // text: every fact the code depends on, a line each
  std::string cubin;
  KernelResources resources;
  std::string log;  // the compiler's
};

}  // namespace moeplan
