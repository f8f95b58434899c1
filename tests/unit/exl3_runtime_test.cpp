#include "planner/deployment/exl3_runtime.hpp"

#include "planner/deployment/engine_figures.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/mixed_buffers.hpp"
#include "planner/deployment/parity_staging.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr MixedShape kGlm52Mixed{6144, 512, 256, 8, 188};

i64 state(i64 capacity) { return total_bytes(mixed_state(kGlm52Mixed, capacity)); }

std::vector<Exl3Runtime> runtimes_of(const Json& config) {
  auto runtimes = exl3_runtimes(deployment_of(config));
  if (!runtimes) FAIL(runtimes.error().pointer << " " << runtimes.error().message);
  return *runtimes;
}

i64 part_bytes(const std::vector<Exl3Runtime>& runtimes, std::string_view name) {
  for (const Exl3Runtime& runtime : runtimes) {
    for (const RuntimePart& part : runtime.parts) {
      if (part.name == name) return part.bytes;
    }
  }
  return -1;
}

Error error_of(const Json& config) {
  const auto runtimes = exl3_runtimes(deployment_of(config));
  REQUIRE(!runtimes);
  return runtimes.error();
}

}  // namespace

TEST_CASE("the parity path stages 83,130,384 B for GLM-5.2 at TP4, tensor by tensor") {
  const auto buffers = parity_staging({6144, 512, 256, 8, 128, 128, 188});
  const std::pair<std::string_view, i64> expected[] = {
      {"xh", 1'572'864},       {"out32", 3'145'728},     {"tg", 36'175'872},      {"tu", 36'175'872},
      {"ig", 3'014'656},       {"iu", 3'014'656},        {"expert_count", 2'056}, {"expert_offsets", 2'056},
      {"token_sorted", 8'192}, {"weight_sorted", 2'048}, {"flat_token", 8'192},   {"ones", 8'192}};
  REQUIRE(buffers.size() == std::size(expected));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CHECK(buffers[i].name == expected[i].first);
    CHECK(buffers[i].bytes == expected[i].second);
  }
  CHECK(total_bytes(buffers) == 83'130'384);
}

TEST_CASE("without a prefill plan the parity path stages every scheduled row, 103.7 MiB more at 3,072") {
  const i64 with = total_bytes(parity_staging({6144, 512, 256, 8, 128, 128, 188}));
  const i64 without = total_bytes(parity_staging({6144, 512, 256, 8, 3072, 128, 188}));
  CHECK(without - with == 108'763'136);
  Json config = glm52_json();
  config["deployment"]["env"]["VLLM_EXL3_PREFILL_TRELLIS"] = "true";
  const auto runtimes = runtimes_of(config);
  CHECK(part_bytes(runtimes, "parity staging") == without);
  CHECK(part_bytes(runtimes, "prefill arena") == -1);
  CHECK(logged_arena_bytes(runtimes[0]) == 0);
}

TEST_CASE("mixed states take the recorded bytes") {
  CHECK(state(6) == 16'947'856);
  CHECK(state(32) == 32'520'144);
  CHECK(state(1024) == 276'349'776);
  CHECK(state(3072) == 779'739'984);
}

TEST_CASE("the logged buffers of mixed bit widths are reproduced to the printed 0.1 MiB") {
  struct Line {
    i64 max_m, capacity, scheduled, tenths;
  };
  const Line lines[] = {{6, 512, 3072, 1597},  {6, 1024, 3072, 2797}, {32, 1024, 2048, 2946},
                        {6, 1536, 3072, 3997}, {6, 2048, 3072, 5197}, {6, 3072, 3072, 7598}};
  for (const auto& [max_m, capacity, scheduled, tenths] : lines) {
    Json config = glm52_mixed_json();
    config["deployment"]["max_num_batched_tokens"] = scheduled;
    config["deployment"]["env"] = {{"VLLM_EXL3_TRELLIS_MAX_M", max_m},
                                   {"VLLM_EXL3_PREFILL_CAPACITY", capacity}};
    const auto runtimes = runtimes_of(config);
    INFO(capacity);
    CHECK(runtimes[0].form == RuntimeForm::mixed_one_grid);
    CHECK(tenths_of_mebibytes(logged_buffer_bytes(runtimes[0]).decode_bytes) == tenths);
  }
}

TEST_CASE("a mixed scheduler no larger than the decode plan has one state") {
  Json config = glm52_mixed_json();
  config["deployment"]["max_num_batched_tokens"] = 24;
  config["deployment"]["env"] = {{"VLLM_EXL3_TRELLIS_MAX_M", 32}};
  const auto runtimes = runtimes_of(config);
  CHECK(runtimes[0].decode_tokens == 24);
  CHECK(runtimes[0].bytes() == state(24));
}

TEST_CASE("the logged arenas are reproduced to the printed 0.1 MiB") {
  const std::pair<i64, i64> lines[] = {{512, 2541},   {1024, 4141},  {1536, 5741}, {2048, 7341},
                                       {3072, 10542}, {4096, 13742}, {8192, 26543}};
  for (const auto& [capacity, tenths] : lines) {
    Json config = glm52_json();
    config["deployment"]["max_num_batched_tokens"] = 8192;
    config["deployment"]["env"]["VLLM_EXL3_PREFILL_CAPACITY"] = capacity;
    INFO(capacity);
    CHECK(tenths_of_mebibytes(logged_arena_bytes(runtimes_of(config)[0])) == tenths);
  }
}

TEST_CASE("decode arenas of 6, 32, 48 and 64 tokens take 16.63, 33.51, 38.51 and 43.51 MiB") {
  const std::pair<i64, i64> plans[] = {{6, 1663}, {32, 3351}, {48, 3851}, {64, 4351}};
  for (const auto& [tokens, hundredths] : plans) {
    Json config = glm52_json();
    config["deployment"]["env"]["VLLM_EXL3_TRELLIS_MAX_M"] = tokens;
    const i64 bytes = part_bytes(runtimes_of(config), "decode arena");
    INFO(tokens);
    CHECK((bytes * 200 + kMiB) / (2 * kMiB) == hundredths);
  }
}

TEST_CASE("the turnkey runtime takes 1,176.96 MiB, and a draft with EXL3 experts doubles it") {
  Json config = glm52_json();
  const auto single = runtimes_of(config);
  REQUIRE(single.size() == 1);
  CHECK(single[0].bytes() == 45'628'520 + 1'105'369'560 + 83'130'384);
  config["deployment"]["draft_is_exl3"] = true;
  const auto twice = runtimes_of(config);
  REQUIRE(twice.size() == 2);
  CHECK(twice[1].bytes() == single[0].bytes());
  CHECK(part_bytes(twice, "draft parity staging") == 83'130'384);
  config["deployment"]["num_speculative_tokens"] = 0;
  CHECK(runtimes_of(config).size() == 1);
}

TEST_CASE("a mixed target and an EXL3 draft log a buffers line and an arena line") {
  Json config = glm52_mixed_json();
  config["deployment"]["draft_is_exl3"] = true;
  config["deployment"]["env"]["VLLM_EXL3_PREFILL_CAPACITY"] = 1024;
  const auto runtimes = runtimes_of(config);
  REQUIRE(runtimes.size() == 2);
  CHECK(tenths_of_mebibytes(logged_buffer_bytes(runtimes[0]).decode_bytes) == 2797);
  CHECK(tenths_of_mebibytes(logged_arena_bytes(runtimes[1])) == 4141);
}

TEST_CASE("the serial form shares one arena among the tiers, the router's workspace in it") {
  Json config = glm52_mixed_json();
  config["quant"]["mixed_form"] = "serial";
  config["deployment"]["env"]["VLLM_EXL3_PREFILL_CAPACITY"] = 1024;
  const auto runtimes = runtimes_of(config);
  REQUIRE(runtimes[0].form == RuntimeForm::mixed_serial);
  CHECK(part_bytes(runtimes, "mixed decode state") == state(6));
  CHECK(part_bytes(runtimes, "mixed prefill accumulator") == 1024 * 6144 * 4);
  i64 largest = 0;
  const Deployment d = deployment_of(config);
  const auto settings = check_exl3_deployment(d);
  for (const QuantTier& tier : d.quant->tiers) {
    const PlanRequest request = exl3_tier_request(d, *settings, tier);
    CHECK(request.moe.capacity.route_experts == 256);
    const auto layout = plan_moe(request.moe);
    CHECK(layout->route_bytes > 0);
    largest = max_of(largest, layout->total_bytes);
  }
  CHECK(part_bytes(runtimes, "mixed prefill arena") == largest);
  CHECK(logged_buffer_bytes(runtimes[0]).prefill_bytes == largest + 1024 * 6144 * 4);
}

TEST_CASE("a step is sliced into whole capacities and one exact tail") {
  for (i64 capacity = 1; capacity <= 40; ++capacity) {
    for (i64 rows = 0; rows <= 200; ++rows) {
      // What the engine's loop does.
      i64 launches = 0, tail = 0;
      for (i64 start = 0; start < rows; start += capacity) {
        ++launches;
        tail = min_of(capacity, rows - start);
      }
      const PrefillSlices slices = prefill_slices(rows, capacity);
      CHECK(slices.launches == launches);
      CHECK(slices.tail == (rows > capacity && tail < capacity ? tail : 0));
    }
  }
}

TEST_CASE("runtimes with equal keys are one, and the draft's key differs") {
  Json config = glm52_json();
  config["deployment"]["draft_is_exl3"] = true;
  const Deployment d = deployment_of(config);
  const auto runtimes = exl3_runtimes(d);
  REQUIRE(runtimes->size() == 2);
  const auto target = exl3_runtime_key(d, (*runtimes)[0]), draft = exl3_runtime_key(d, (*runtimes)[1]);
  CHECK(target != draft);
  CHECK(target.size() == 17);
  for (const auto& [field, value] : target) CHECK(field.find("layer") == std::string::npos);
  CHECK(exl3_tile_config(6144, 512) == std::array<i64, 4>{64, 256, 64, 256});
  CHECK(exl3_tile_config(6144, 384) == std::array<i64, 4>{64, 128, 64, 128});
}

TEST_CASE("every EXL3 variable is validated as its reader does") {
  struct Case {
    const char* name;
    const char* text;
    bool is_fine;
  };
  const Case cases[] = {
      {"VLLM_EXL3_TRELLIS_MIN_M", "", true},         {"VLLM_EXL3_TRELLIS_MIN_M", " 4 ", true},
      {"VLLM_EXL3_TRELLIS_MIN_M", "0", false},       {"VLLM_EXL3_TRELLIS_MIN_M", "-1", false},
      {"VLLM_EXL3_TRELLIS_MIN_M", "65", false},      {"VLLM_EXL3_TRELLIS_MIN_M", "four", false},
      {"VLLM_EXL3_PREFILL_CHUNK", "128.0", false},   {"VLLM_EXL3_PREFILL_CAPACITY", "3073", false},
      {"VLLM_EXL3_PREFILL_CAPACITY", "3072", true},  {"VLLM_EXL3_ONLINE_TRELLIS_BITS", "8", true},
      {"VLLM_EXL3_ONLINE_TRELLIS_BITS", "9", false}, {"VLLM_EXL3_ONLINE_CACHE_MODE", "readonly", true},
      {"VLLM_EXL3_ONLINE_CACHE_MODE", "rw", false},  {"VLLM_EXL3_R7_FUSED", "1", false}};
  for (const Case& c : cases) {
    Json config = glm52_json();
    config["deployment"]["env"][c.name] = c.text;
    INFO(c.name << "=" << c.text);
    const auto runtimes = exl3_runtimes(deployment_of(config));
    CHECK(static_cast<bool>(runtimes) == c.is_fine);
    if (!runtimes) CHECK(runtimes.error().pointer == std::string("/deployment/env/") + c.name);
  }
}

TEST_CASE("tiers have to hold every expert, and the serial form its prefill plan") {
  Json config = glm52_mixed_json();
  config["quant"]["tiers"][1]["experts"] = 63;
  CHECK(error_of(config).pointer == "/quant/tiers");
  config = glm52_mixed_json();
  config["quant"]["mixed_form"] = "serial";
  config["deployment"]["env"]["VLLM_EXL3_PREFILL_TRELLIS"] = "0";
  CHECK(error_of(config).pointer == "/deployment/env/VLLM_EXL3_PREFILL_TRELLIS");
}
