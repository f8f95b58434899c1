// Recorded starts, written as the log lines that an engine prints, through the reader and reconcile.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"

using namespace moeplan;
using Json = nlohmann::json;
using test::run_moeplan;

namespace {

std::vector<Json> records() {
  const Json all = Json::parse(test::read_file(MOEPLAN_SOURCE_DIR "/tests/golden/engine_logs.json"));
  return {all.begin(), all.end()};
}

std::string fixed(const Json& value, int decimals) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, value.get<double>());
  return text;
}

// The start of an engine under the record's settings. The dtype is not recorded; all of these run bfloat16.
std::string start_of(const Json& settings) {
  const std::string model = settings["model"];
  const std::string path = std::regex_replace(model, std::regex(" "), "-");
  const auto put = [&](const char* name, const char* field) {
    return settings.contains(field) ? ", '" + std::string(name) + "': " + settings[field].dump() : "";
  };
  std::string text = "INFO non-default args: {'model': 'org/" + path + "', 'dtype': 'bfloat16'";
  text += put("tensor_parallel_size", "tp") + put("decode_context_parallel_size", "dcp");
  text += put("max_model_len", "max_model_len") + put("max_num_seqs", "max_num_seqs");
  text += put("max_num_batched_tokens", "max_num_batched_tokens");
  text += put("gpu_memory_utilization", "gpu_memory_utilization");
  text += ", 'kv_cache_dtype': '" + settings.value("kv_cache_dtype", "nvfp4_ds_mla") + "'";
  if (model.find("EXL3") != std::string::npos)
    text += ", 'quantization': 'exl3', 'hf_overrides': {'use_index_cache': True}";
  if (settings.value("num_speculative_tokens", 0) > 0)
    text += ", 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': " +
            settings["num_speculative_tokens"].dump() + "}";
  return text + "}\n";
}

std::string log_of(const Json& record) {
  const Json& settings = record["settings"];
  const Json& m = record["measured"];
  const auto gib = [&](const char* field) { return fixed(m[field], 2); };
  std::string text = start_of(settings);
  const std::string scheduler = settings.value("max_num_batched_tokens", Json(0)).dump();
  text += "Model loading took " + gib("model_loading_gib") + " GiB and 31.0 seconds\n";
  if (m.contains("mixed_caps"))
    text += "EXL3 mixed Trellis runtime planned: tiers=((3, 192), (4, 64)) decode_capacity=" +
            m["mixed_caps"][0].dump() + " prefill_capacity=" + m["mixed_caps"][1].dump() +
            " scheduler_capacity=" + scheduler + " buffers=" + fixed(m["mixed_trellis_mib"], 1) + " MiB\n";
  if (m.contains("rank_sliced_arena_mib"))
    text += "EXL3 rank-sliced runtime planned: Trellis m=1.." + m["mixed_caps"][0].dump() +
            " block_m=8, prefill trellis block_m=64 capacity=" + m["rank_sliced_capacity"].dump() +
            " arena=" + fixed(m["rank_sliced_arena_mib"], 1) + "MiB scheduler_capacity=" + scheduler +
            " chunk=128 topk=8\n";
  if (m.contains("graph_estimated_gib"))
    text += "Estimated CUDA graph memory: " + gib("graph_estimated_gib") + " GiB total\n";
  text += "Available KV cache memory: " + gib("available_kv_gib") + " GiB\n";
  if (m.contains("est_max_model_len"))
    text += "Based on the available memory, the estimated maximum model length is " +
            m["est_max_model_len"].dump() + ".\n";
  if (m.contains("kv_tokens")) text += "GPU KV cache size: " + m["kv_tokens"].dump() + " tokens\n";
  if (m.contains("free_total_gib"))
    text += "Free memory on device (" + fixed(m["free_total_gib"][0], 2) + "/" +
            fixed(m["free_total_gib"][1], 2) + " GiB) on startup. Desired GPU memory utilization is (" +
            settings["gpu_memory_utilization"].dump() + ", " + gib("requested_gib") +
            " GiB). Actual usage is " + gib("model_loading_gib") + " GiB for weight, " +
            gib("peak_activation_gib") + " GiB for peak activation, " + gib("non_torch_gib") +
            " GiB for non-torch memory, and " + gib("graph_actual_gib") + " GiB for CUDAGraph memory.\n";
  return text;
}

}  // namespace

TEST_CASE("every recorded start whose settings are stated reconciles") {
  int reconciled = 0;
  for (const Json& record : records()) {
    const std::string id = record["id"];
    const Json& m = record["measured"];
    const std::string model = record["settings"]["model"];
    const bool is_stated = record["settings"].contains("max_model_len") && model.starts_with("GLM-5") &&
                           m.contains("available_kv_gib") && m.contains("model_loading_gib");
    if (!is_stated) continue;
    ++reconciled;
    std::string options = " --device rtx-pro-6000-blackwell --format json";
    if (record["settings"].value("ckv_record", "").find("432B") != std::string::npos)
      options += " --set /deployment/kv_record_bytes=432";
    const auto output = run_moeplan("reconcile -" + options, log_of(record));
    INFO(id << "\n" << log_of(record) << output.out << output.err);
    REQUIRE(output.exit_code == 0);
    const Json answer = Json::parse(output.out);
    std::set<std::string> matched;
    for (const Json& line : answer["lines"]) {
      if (line["match"] == true) matched.insert(line["what"]);
    }
    CHECK(matched.contains("model loading"));
    CHECK(matched.contains(m.contains("kv_tokens") ? "KV cache tokens" : "estimated maximum model length"));
    CHECK(matched.contains("rank-sliced arena") == m.contains("rank_sliced_arena_mib"));
    CHECK(matched.contains("mixed buffers") == m.contains("mixed_trellis_mib"));
    CHECK(matched.contains("requested memory") == m.contains("free_total_gib"));
    CHECK(matched.contains("available KV memory") == m.contains("free_total_gib"));
  }
  CHECK(reconciled == 10);
}

TEST_CASE("recorded starts of models without an indexer reconcile once their shape is stated") {
  // What Kimi-K2 and MiniMax-M2.5 printed; the shipped Kimi-K2 does not state its latent attention.
  const auto kimi = run_moeplan(
      "reconcile - -q --set /model/kv_lora_rank=512 --set /model/qk_rope_head_dim=64",
      "INFO non-default args: {'model': 'moonshotai/Kimi-K2-Thinking', 'tensor_parallel_size': 8, "
      "'max_model_len': 131072, 'dtype': 'bfloat16', 'kv_cache_dtype': 'bfloat16'}\n"
      "Available KV cache memory: 46.80 GiB\nGPU KV cache size: 715,072 tokens\n");
  INFO(kimi.out << kimi.err);
  CHECK(kimi.out.find("MATCHES · 1 of 1 figures") != std::string::npos);
  const auto minimax =
      run_moeplan("reconcile - -q",
                  "INFO non-default args: {'model': 'MiniMaxAI/MiniMax-M2.5', 'tensor_parallel_size': 4, "
                  "'max_model_len': 196608, 'dtype': 'bfloat16', 'kv_cache_dtype': 'bfloat16'}\n"
                  "Available KV cache memory: 23.62 GiB\nGPU KV cache size: 399,424 tokens\n"
                  "Maximum concurrency for 196,608 tokens per request: 2.03x\n");
  INFO(minimax.out << minimax.err);
  CHECK(minimax.out.find("MATCHES · 2 of 2 figures") != std::string::npos);
}
