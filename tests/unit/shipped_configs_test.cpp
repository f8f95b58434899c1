// The shipped model and device files are read by the same rows as a config's sections.
#include <filesystem>

#include "cli/io/config.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;

namespace {

template <class Section>
Section read_section(const std::filesystem::path& path, std::span<const Field> fields) {
  const std::string text = test::read_source(std::filesystem::relative(path, MOEPLAN_SOURCE_DIR).string());
  JsonDocument document;
  INFO(path.string());
  REQUIRE(document.parse(text, path.string()));
  std::vector<Problem> problems;
  FieldContext context{.document = document, .problems = problems};
  Section section;
  read_fields(context, document.root(), fields, &section);
  for (const Problem& problem : problems) FAIL_CHECK(problem.error.message);
  return section;
}

}  // namespace

TEST_CASE("every shipped model states a MoE shape") {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(MOEPLAN_SOURCE_DIR "/configs/models")) {
    const auto model = read_section<ModelShape>(file.path(), model_fields());
    CHECK((model.name && model.source && model.hidden_size && model.moe_intermediate_size &&
           model.n_routed_experts && model.num_experts_per_tok));
    ++count;
  }
  CHECK(count == 17);
}

TEST_CASE("every shipped device states its multiprocessors and where the figures come from") {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(MOEPLAN_SOURCE_DIR "/configs/devices")) {
    const auto device = read_section<DeviceSettings>(file.path(), device_fields());
    CHECK((device.name && device.source && device.sm_count > 0 && device.compute_capability &&
           device.shared_memory_per_block_optin));
    CHECK(file.path().stem().string() == *device.name);
    ++count;
  }
  CHECK(count == 10);
}
