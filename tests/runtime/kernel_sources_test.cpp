// The texts kernels are compiled from.
#include "runtime/jit/kernel_sources.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "runtime/jit/digest.hpp"
#include "runtime/jit/kernel_catalog.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace moeplan;

TEST_CASE("SHA-256 is that of the standard") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("embedded texts are the files of the source tree") {
  CHECK(embedded_sources().size() >= 3);
  for (const SourceText& source : embedded_sources()) {
    INFO(source.name);
    CHECK(source.text == test::read_source(std::string(source.name)));
  }
}

TEST_CASE("every kernel of the catalog finds its text and all it includes") {
  for (const KernelRow& row : kernel_catalog()) {
    INFO(row.name);
    const auto source = kernel_source(row.source, {});
    REQUIRE(source);
    CHECK(source->main.text.find(concat(" ", row.name, "(")) != std::string::npos);
    CHECK(row.defines.size() <= kMostDefines);
  }
}

TEST_CASE("a kernel waits for the launch before exactly where it is launched to overlap with it") {
  int overlapping = 0;
  for (const KernelRow& row : kernel_catalog()) {
    INFO(row.name);
    const auto source = kernel_source(row.source, {});
    REQUIRE(source);
    const auto calls = [&](std::string_view what) {
      bool is_called = source->main.text.find(what) != std::string::npos;
      for (const KernelSource::Text& header : source->headers)
        is_called = is_called || header.text.find(what) != std::string::npos;
      return is_called;
    };
    // Without the wait a launch would read what the one before has not written yet; where nothing overlaps,
    // the wait would be for nothing.
    CHECK(calls("ptx::wait_for_last_launch()") == row.overlaps_last);
    overlapping += row.overlaps_last ? 1 : 0;
  }
  CHECK(overlapping > 0);
}

TEST_CASE("a kernel's digest changes with any text it includes, and with no other") {
  const test::TemporaryFolder folder;
  folder.write("a.cu", "#include \"kernels/b.cuh\"\nint a;\n");
  folder.write("b.cuh", "#include \"kernels/c.cuh\"\n#include \"planner/core/integer.hpp\"\n");
  folder.write("c.cuh", "#include \"kernels/b.cuh\"\nint c;\n");  // a ring
  folder.write("other.cuh", "int other;\n");
  const RuntimeEnvironment environment{.kernel_dir = folder.path()};
  const auto before = kernel_source("kernels/a.cu", environment);
  REQUIRE(before);
  CHECK(before->main.name == "kernels/a.cu");
  REQUIRE(before->headers.size() == 3);
  CHECK(before->headers[0].name == "kernels/b.cuh");
  CHECK(before->headers[2].name == "planner/core/integer.hpp");
  folder.write("other.cuh", "int another;\n");
  CHECK(kernel_source("kernels/a.cu", environment)->digest == before->digest);
  folder.write("c.cuh", "#include \"kernels/b.cuh\"\nint d;\n");
  CHECK(kernel_source("kernels/a.cu", environment)->digest != before->digest);
}

TEST_CASE("an include that the compiler would look up by itself is refused, with its line") {
  for (const char* line :
       {"#  include \"kernels/b.cuh\"", " #include \"kernels/b.cuh\"", "#include <vector>", "#include NAME",
        "#include \"kernels/b.cuh", "\t#\tinclude\t<b>", "#import \"x\""}) {
    const test::TemporaryFolder folder;
    folder.write("a.cu", std::string("int a;\n") + line + "\n");
    folder.write("b.cuh", "int b;\n");
    INFO(line);
    const auto source = kernel_source("kernels/a.cu", {.kernel_dir = folder.path()});
    REQUIRE_FALSE(source);
    CHECK(source.error().message.starts_with("kernels/a.cu:2: "));
  }
}

TEST_CASE("names that lead out of the texts are not read") {
  const test::TemporaryFolder folder;
  for (const char* name :
       {"/etc/passwd", "../etc/passwd", "planner/../kernels/b.cuh", "kernels/nowhere.cuh"}) {
    folder.write("a.cu", std::string("#include \"") + name + "\"\n");
    INFO(name);
    CHECK_FALSE(kernel_source("kernels/a.cu", {.kernel_dir = folder.path()}));
  }
}

TEST_CASE("a text that MOEPLAN_KERNEL_DIR lacks is an error that names the file, not the embedded text") {
  const test::TemporaryFolder folder;
  const auto source = kernel_source("kernels/arena/fill.cu", {.kernel_dir = folder.path()});
  REQUIRE_FALSE(source);
  CHECK(source.error().code == ErrorCode::kernel_source);
  CHECK(source.error().message.find(folder.path() + "/arena/fill.cu") != std::string::npos);
  const auto unknown = kernel_source("kernels/unknown.cu", {});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message.find("kernels/unknown.cu") != std::string::npos);
}
