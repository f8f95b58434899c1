// Start-up logs of engines: settings, what was printed, and what the planner says of it.
#include <set>

#include "cli/io/decimal.hpp"
#include "planner/deployment/engine_figures.hpp"
#include "planner/deployment/fit.hpp"
#include "planner/deployment/memory_budget.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

std::vector<Json> records() {
  const Json all = Json::parse(read_source("tests/golden/engine_logs.json"));
  return {all.begin(), all.end()};
}

// A JSON figure as the engine prints it: two decimals.
std::string gib(const Json& value) {
  std::string text = value.dump();
  if (text.find('.') == std::string::npos) text += '.';
  while (text.size() - text.find('.') < 3) text += '0';
  return text + " GiB";
}

Json model_section(const std::string& name) {
  Json model = Json::parse(read_source("configs/models/" + name + ".json"));
  return model;
}

// The config that an engine with these settings runs.
Json config_of(const Json& record) {
  const Json& settings = record["settings"];
  const Json& measured = record["measured"];
  const std::string model = settings["model"];
  const auto is = [&](const char* part) { return model.find(part) != std::string::npos; };
  Json config = glm52_json();
  config["model"] = model_section(is("Kimi") ? "kimi-k2" : is("MiniMax") ? "minimax-m2" : "glm-5.2");
  // The shipped file does not state its latent attention, which is that of DeepSeek-V3.
  if (is("Kimi")) config["model"].update({{"kv_lora_rank", 512}, {"qk_rope_head_dim", 64}});
  Json& engine = config["deployment"];
  engine = {{"dtype", "bfloat16"}, {"env", Json::object()}};
  engine["max_num_batched_tokens"] = settings.value("max_num_batched_tokens", 8192);
  for (const char* field : {"max_num_seqs", "max_model_len", "gpu_memory_utilization"}) {
    if (settings.contains(field)) engine[field] = settings[field];
  }
  engine["num_speculative_tokens"] = settings.value("num_speculative_tokens", settings.value("mtp", 0));
  engine["kv_cache_dtype"] = settings.value("kv_cache_dtype", is("GLM") ? "nvfp4_ds_mla" : "bfloat16");
  if (settings.value("ckv_record", "").find("432B") != std::string::npos) engine["kv_record_bytes"] = 432;
  if (!is("GLM-5.2-EXL3") && !is("GLM-5.2 EXL3")) engine["indexer_cache"] = "all_layers";
  config["parallel"] = {{"tp", settings["tp"]}, {"dcp", settings.value("dcp", 1)}};
  if (measured.contains("mixed_caps")) {
    const Json& caps = measured["mixed_caps"];
    config["quant"] = glm52_mixed_json()["quant"];
    engine["env"] = {{"VLLM_EXL3_TRELLIS_MAX_M", caps[0]}, {"VLLM_EXL3_PREFILL_CAPACITY", caps[1]}};
    engine["draft_is_exl3"] = measured.contains("rank_sliced_arena_mib");
  } else {
    config["quant"] = {{"source_format", "modelopt_nvfp4"}};
  }
  if (is("EXL3 3.0")) config["quant"] = glm52_json()["quant"];
  Json& printed = config["measured"];
  printed = {{"source", record["id"]}};
  const std::pair<const char*, const char*> fields[] = {
      {"model_loading", "model_loading_gib"}, {"peak_activation", "peak_activation_gib"},
      {"non_torch", "non_torch_gib"},         {"graph_estimate", "graph_estimated_gib"},
      {"graph_actual", "graph_actual_gib"},   {"requested", "requested_gib"},
      {"available_kv", "available_kv_gib"}};
  for (const auto& [to, from] : fields) {
    if (measured.contains(from)) printed[to] = gib(measured[from]);
  }
  if (measured.contains("free_total_gib")) {
    printed["free_memory"] = gib(measured["free_total_gib"][0]);
    printed["total_memory"] = gib(measured["free_total_gib"][1]);
  }
  return config;
}

MemoryBudget budget(const Json& config) {
  auto made = memory_budget(deployment_of(config));
  if (!made) FAIL(made.error().pointer << " " << made.error().message);
  return *made;
}

}  // namespace

TEST_CASE("every logged KV cache lies in the interval its printed memory gives") {
  int counted = 0;
  for (const Json& record : records()) {
    const Json& measured = record["measured"];
    INFO(record["id"]);
    const Deployment d = deployment_of(config_of(record));
    const MemoryBudget made = budget(config_of(record));
    if (record.contains("formula") && record["formula"].contains("bytes_per_token_per_rank"))
      CHECK(made.kv.bytes_per_token() == record["formula"]["bytes_per_token_per_rank"].get<i64>());
    if (measured.contains("implied_kv_gib")) {
      const i64 blocks = measured["kv_tokens"].get<i64>() / made.kv.request_tokens_per_block();
      const auto implied = parse_printed_bytes(measured["implied_kv_gib"].dump() + " GiB");
      CHECK(blocks * made.kv.page_bytes() >= implied->lo);
      CHECK(blocks * made.kv.page_bytes() <= implied->hi);
      ++counted;
    }
    if (!measured.contains("available_kv_gib")) continue;
    const ByteRange available = *d.measured->available_kv;
    const i64 longest = d.engine->max_model_len.value_or(made.kv.request_tokens_per_block());
    if (measured.contains("kv_tokens")) {
      const TokenRange tokens = kv_tokens(made.kv, available, longest);
      CHECK(tokens.lo <= measured["kv_tokens"].get<i64>());
      CHECK(tokens.hi >= measured["kv_tokens"].get<i64>());
      ++counted;
    }
    if (measured.contains("est_max_model_len")) {
      const TokenRange estimate = estimated_max_model_len(made.kv, available);
      CHECK(estimate.lo <= measured["est_max_model_len"].get<i64>());
      CHECK(estimate.hi >= measured["est_max_model_len"].get<i64>());
      CHECK(overall(fit_checks(d, made)) == Fit::does_not_fit);
      ++counted;
    }
    if (record.contains("formula") && record["formula"].contains("blocks"))
      CHECK(kv_tokens(made.kv, record["formula"]["blocks"].get<i64>(), longest) ==
            measured["kv_tokens"].get<i64>());
  }
  CHECK(counted == 15);
}

TEST_CASE("every logged arena and mixed buffer is reproduced to 0.1 MiB") {
  int arenas = 0, buffers = 0;
  for (const Json& record : records()) {
    const Json& measured = record["measured"];
    if (!measured.contains("mixed_caps")) continue;
    INFO(record["id"]);
    const MemoryBudget made = budget(config_of(record));
    const auto tenths = [](const Json& mib) { return std::llround(mib.get<double>() * 10); };
    CHECK(tenths_of_mebibytes(logged_buffer_bytes(made.runtimes[0]).decode_bytes) ==
          tenths(measured["mixed_trellis_mib"]));
    ++buffers;
    if (!measured.contains("rank_sliced_arena_mib")) continue;
    REQUIRE(made.runtimes.size() == 2);
    CHECK(tenths_of_mebibytes(logged_arena_bytes(made.runtimes[1])) ==
          tenths(measured["rank_sliced_arena_mib"]));
    ++arenas;
  }
  CHECK(buffers == 6);
  CHECK(arenas == 4);
}

TEST_CASE("the printed terms of a waterfall leave the printed KV memory to 0.03 GiB") {
  int counted = 0;
  for (const Json& record : records()) {
    if (!record.contains("waterfall_check")) continue;
    INFO(record["id"]);
    const Measured m = *deployment_of(config_of(record)).measured;
    const ByteRange predicted = available_kv_memory(*m.requested, *m.model_loading, *m.peak_activation,
                                                    *m.non_torch, *m.graph_estimate);
    CHECK(predicted.lo <= m.available_kv->hi);
    CHECK(predicted.hi >= m.available_kv->lo);
    const ByteRange requested =
        requested_memory(*m.total_memory, *deployment_of(config_of(record)).engine->gpu_memory_utilization);
    CHECK(requested.lo <= m.requested->hi);
    CHECK(requested.hi >= m.requested->lo);
    // Without its printed result the waterfall derives it.
    Json config = config_of(record);
    config["measured"].erase("available_kv");
    const MemoryBudget made = budget(config);
    CHECK(made.available_kv.kind == SourceKind::derived);
    CHECK(made.available_kv.bytes.lo == predicted.lo);
    CHECK(made.available_kv.bytes.hi == predicted.hi);
    ++counted;
  }
  CHECK(counted == 4);
}

TEST_CASE("peak activation less the planned scratch is the base the records share") {
  std::set<i64> bases;
  for (const Json& record : records()) {
    if (!record["measured"].contains("peak_activation_gib")) continue;
    const MemoryBudget made = budget(config_of(record));
    for (const BudgetRow& row : made.inside) {
      if (row.name == "peak activation besides") bases.insert((*row.bytes.lo + *row.bytes.hi) / 2 / kMiB);
    }
  }
  // 0.48 GiB without a draft; 0.63 and 0.73 GiB with one, less its decode arena and parity staging.
  CHECK(*bases.begin() > 480);
  CHECK(*bases.rbegin() < 660);
}
