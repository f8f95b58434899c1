// The assembler's report, as NVRTC 13.0 prints it.
#include "runtime/jit/ptxas_log.hpp"

#include "tests/catch.hpp"

using namespace moeplan;

namespace {

constexpr const char* kLog =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'other' for 'sm_120'\n"
    "ptxas info    : Function properties for other\n"
    "ptxas         .     16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n"
    "ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size\n"
    "ptxas info    : Compiling entry function 'fused' for 'sm_120'\n"
    "ptxas info    : Function properties for fused\n"
    "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
    "ptxas info    : Used 96 registers, used 2 barriers, 1024 bytes smem, 400 bytes cmem[0]\n"
    "ptxas info    : Compile time = 2.996 ms\n";

}  // namespace

TEST_CASE("the report of one entry point is told from the others'") {
  const auto fused = parse_ptxas_log(kLog, "fused");
  REQUIRE(fused);
  CHECK(*fused == KernelResources{.registers = 96,
                                  .stack_bytes = 8,
                                  .spill_store_bytes = 4,
                                  .spill_load_bytes = 12,
                                  .static_shared_bytes = 1024});
  const auto other = parse_ptxas_log(kLog, "other");
  REQUIRE(other);
  CHECK(other->registers == 255);
  CHECK(other->static_shared_bytes == 0);
}

TEST_CASE("an entry point whose name only begins like another's is not found") {
  CHECK_FALSE(parse_ptxas_log(kLog, "fuse"));
  CHECK_FALSE(parse_ptxas_log(kLog, "fused_moe"));
}

TEST_CASE("a report that lacks the frame or the registers counts as none") {
  const std::string log = kLog;
  const auto without = [&](const std::string& line) {
    std::string text = log;
    text.erase(text.find(line), line.size());
    return text;
  };
  CHECK_FALSE(parse_ptxas_log(
      without("ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"),
      "fused"));
  CHECK_FALSE(parse_ptxas_log(without("Used 96 registers, "), "fused"));
  CHECK_FALSE(parse_ptxas_log("", "fused"));
}
