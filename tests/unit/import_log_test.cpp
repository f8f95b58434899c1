// Engine logs: settings and figures, whatever the ranks, the terminal and the collector did to the lines.
#include "cli/import/engine_log.hpp"
#include "cli/import/literal.hpp"
#include "cli/import/shipped.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"
#include "tests/unit/import_support.hpp"

using namespace moeplan;
using test::first_problem;
using test::from_of;
using test::value_at;

namespace {

EngineLog read_text_log(std::string_view text, std::size_t piece = std::string_view::npos) {
  EngineLogReader reader("engine.log");
  for (std::size_t at = 0; at < text.size();) {
    const auto part = text.substr(at, piece);
    reader.feed(part);
    at += part.size();
  }
  return reader.finish();
}

Import import_text(std::string_view text) {
  Import import;
  import_engine_log(import, read_text_log(text));
  return import;
}

std::string golden(const std::string& name) { return test::read_source("tests/golden/logs/" + name); }

std::string figure(const EngineLog& log, LogKey key) {
  const LogFigure* found = log.first(key);
  return found ? found->text : "";
}

// Every figure with its line, for comparing two readings.
std::string all_figures(const EngineLog& log, bool with_lines) {
  std::string out;
  for (const LogFigure& f : log.figures)
    out += std::to_string(static_cast<int>(f.key)) + "=" + f.text +
           (with_lines ? "@" + std::to_string(f.line) : "") + " ";
  return out;
}

constexpr const char* kMixedDraft = "glm52_exl3_325_tp4_dcp4_mtp3_cap1024.log";

}  // namespace

TEST_CASE("a log of a mixed target with an EXL3 draft gives every setting the engine ran with") {
  const Import import = import_text(golden(kMixedDraft));
  const std::pair<std::string_view, std::string_view> expected[] = {
      {"/parallel/tp", "4"},
      {"/parallel/dcp", "4"},
      {"/deployment/dtype", "\"bfloat16\""},
      {"/deployment/max_num_batched_tokens", "3072"},
      {"/deployment/max_num_seqs", "1"},
      {"/deployment/max_model_len", "131072"},
      {"/deployment/num_speculative_tokens", "3"},
      {"/deployment/draft_is_exl3", "true"},
      {"/deployment/gpu_memory_utilization", "0.92"},
      {"/deployment/kv_cache_dtype", "\"nvfp4_ds_mla\""},
      {"/deployment/indexer_cache", "\"full_layers\""},
      {"/deployment/cudagraph_capture_sizes", "[1, 2, 3, 4, 5, 6]"},
      {"/deployment/env/VLLM_EXL3_TRELLIS_MAX_M", "6"},
      {"/deployment/env/VLLM_EXL3_PREFILL_CAPACITY", "1024"},
      {"/model/index_full_layers", "21"},
      {"/model/n_routed_experts", "256"},
      {"/model/num_experts_per_tok", "8"},
      {"/quant/source_format", "\"exl3_trellis_mcg\""},
      {"/quant/bits", "3"},
      {"/quant/tiers", R"([{"bits": 3, "experts": 192}, {"bits": 4, "experts": 64}])"},
      {"/device/sm_count", "188"},
      {"/measured/model_loading", "\"83.57 GiB\""},
      {"/measured/available_kv", "\"1.91 GiB\""},
      {"/measured/kv_tokens", "257024"},
      {"/measured/graph_estimate", "\"0.27 GiB\""},
      {"/measured/graph_actual", "\"0.14 GiB\""},
      {"/measured/peak_activation", "\"1.41 GiB\""},
      {"/measured/non_torch", "\"0.24 GiB\""},
      {"/measured/requested", "\"87.41 GiB\""},
      {"/measured/free_memory", "\"93.61 GiB\""},
      {"/measured/total_memory", "\"95.01 GiB\""},
  };
  for (const auto& [pointer, json] : expected) {
    INFO(pointer);
    CHECK(value_at(import, pointer) == json);
  }
  CHECK(first_problem(import) == "");
}

TEST_CASE("a log that stopped early gives what it printed") {
  const Import refused = import_text(golden("glm52_exl3_325_tp4_dcp4_mtp3_refused.log"));
  CHECK(value_at(refused, "/measured/available_kv") == "\"0.82 GiB\"");
  CHECK(value_at(refused, "/measured/kv_tokens") == "");
  CHECK(value_at(refused, "/deployment/gpu_memory_utilization") == "0.92");
  const EngineLog log = read_text_log(golden("glm52_exl3_325_tp4_dcp4_mtp3_refused.log"));
  CHECK(figure(log, LogKey::needed_kv) == "0.98");
  CHECK(figure(log, LogKey::estimated_model_len) == "110080");
  CHECK(figure(log, LogKey::equivalent_utilization) == "0.9171");
  CHECK(figure(log, LogKey::sliced_arena) == "1054.2");
  CHECK(figure(log, LogKey::mixed_buffers) == "759.8");
}

TEST_CASE("an unprofiled start says that the graph estimate was not subtracted") {
  const Import import = import_text(golden("glm51_nvfp4_tp8_dcp4_mtp3.log"));
  CHECK(value_at(import, "/measured/graph_profiling_disabled") == "true");
  CHECK(value_at(import, "/measured/kv_tokens") == "1271040");
  CHECK(value_at(import, "/deployment/indexer_cache") == "\"all_layers\"");
  CHECK(value_at(import, "/quant/source_format") == "\"modelopt_nvfp4\"");
  CHECK(from_of(import, "/measured/kv_tokens") == "engine.log:11");
  CHECK(import.engine == "v0.20.2rc1.dev249+glmkimirebase20260514");
}

TEST_CASE("a target without draft is imported without one") {
  const Import import = import_text(golden("glm52_exl3_325_tp4_dcp4_mtp0_cap3072.log"));
  CHECK(value_at(import, "/deployment/num_speculative_tokens") == "0");
  CHECK(value_at(import, "/deployment/gpu_memory_utilization") == "0.9");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") == "6");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_PREFILL_CAPACITY") == "3072");
}

TEST_CASE("wrapping, colours, prefixes and the size of pieces change no figure") {
  for (const char* name : {kMixedDraft, "glm51_nvfp4_tp8_dcp4_mtp3.log"}) {
    INFO(name);
    const std::string text = golden(name);
    const EngineLog plain = read_text_log(text);
    REQUIRE(plain.figures.size() > 10);
    for (std::size_t piece : {1u, 7u, 4096u})
      CHECK(all_figures(read_text_log(text, piece), true) == all_figures(plain, true));

    std::string wrapped, coloured, prefixed = "vllm-1  | ";
    std::size_t column = 0;
    for (char c : text) {
      column = c == '\n' ? 0 : column + 1;
      wrapped += c;
      if (column == 80) {
        wrapped += "\nvllm-1  | ";
        column = 0;
      }
      coloured += c == ' ' ? "\x1b[0;36m \x1b[0m" : std::string(1, c);
      prefixed += c;
      if (c == '\n') prefixed += "2026-07-31T06:29:49.123456789Z ";
    }
    CHECK(all_figures(read_text_log(wrapped), false) == all_figures(plain, false));
    CHECK(all_figures(read_text_log(coloured), true) == all_figures(plain, true));
    CHECK(all_figures(read_text_log(prefixed), true) == all_figures(plain, true));
    CHECK(read_text_log(wrapped).arguments->value.members.size() == plain.arguments->value.members.size());
  }
}

TEST_CASE("ranks that share a line, and ranks that disagree, are all read") {
  const EngineLog log = read_text_log(
      "(Worker_TP0 pid=1) Loading: 100%|##| 1/1 [00:00<00:00](Worker_TP1 pid=2) INFO Available KV cache "
      "memory: 1.87 GiB\n"
      "(Worker_TP0 pid=1) (Worker_TP2 pid=3) INFO Available KV cache memory: 1.85 GiB\nINFO Available KV "
      "cache memory: 1.87 GiB\n");
  CHECK(log.all(LogKey::available_kv).size() == 2);
  REQUIRE(log.smallest(LogKey::available_kv));
  CHECK(log.smallest(LogKey::available_kv)->text == "1.85");
  CHECK(log.smallest(LogKey::available_kv)->line == 2);
}

TEST_CASE("a log cut inside the arguments, and one without them, say so with a place") {
  const std::string text = golden(kMixedDraft);
  CHECK(first_problem(import_text(text.substr(0, text.find("'kv_cache_dtype'"))))
            .find("engine.log:4:81: the engine's arguments begin here, and the log ends inside them") == 0);
  CHECK(first_problem(import_text("INFO GPU KV cache size: 1,024 tokens\n"))
            .find("no engine start in 2 lines") != std::string::npos);
  CHECK(first_problem(import_text("")).find("no engine start") != std::string::npos);
}

TEST_CASE("two engines in one log are refused, two equal starts are noted") {
  const std::string text = golden(kMixedDraft);
  const Import twice = import_text(text + text);
  CHECK(first_problem(twice) == "");
  CHECK(twice.notes[0].find("starts 2 times") != std::string::npos);
  CHECK(first_problem(import_text(text + golden("glm51_nvfp4_tp8_dcp4_mtp3.log")))
            .find("another engine starts here") != std::string::npos);
}

TEST_CASE("Python values with reprs, JSON and config dumps are one grammar") {
  const auto parsed =
      parse_literal("{'a': <Mode.FULL: (2, 1)>, 'b': [1, 2.5], 'c': None, 'd': True, 'e': 'x\\'y'}");
  CHECK(parsed.error == "");
  CHECK(parsed.value.find("a")->type == Literal::Type::none);
  CHECK(parsed.value.find("b")->items[1].text == "2.5");
  CHECK(parsed.value.find("d")->boolean);
  CHECK(parsed.value.find("e")->text == "x'y");
  const auto dump =
      parse_assignments("model='m',spec=Spec(method='mtp',n=3),dtype=torch.bfloat16,rest=None(Worker");
  CHECK(dump.value.find("spec")->find("n")->text == "3");
  CHECK(dump.value.find("dtype")->text == "torch.bfloat16");
  CHECK(parse_literal(std::string(100, '[')).error == "nested deeper than 64 levels");
  CHECK(parse_literal("{'a': 1").ended_early);
}

TEST_CASE("a number that ends its message ends with its line, whatever stands behind") {
  const std::string text = golden(kMixedDraft);
  const std::string topk = "topk=8\n";
  const auto at = text.find(topk);
  REQUIRE(at != std::string::npos);
  const EngineLog plain = read_text_log(text);
  for (const char* behind : {"0%|          | 0/6 [00:00<?, ?it/s]\n", "2026-07-31 06:29:49 started\n",
                             "2 warnings generated.\n", "06\n", "\n\n6 of 6\n"}) {
    INFO(behind);
    std::string noisy = text;
    noisy.insert(at + topk.size(), behind);
    CHECK(all_figures(read_text_log(noisy), false) == all_figures(plain, false));
  }
  for (const char* behind : {" 0%| | 0/6", "\r0%| | 0/6", "\x1b]8;;6\a6", "\x1b]8;;6\x1b\\ 6", "\x1b(B 6"}) {
    INFO(behind);
    std::string noisy = text;
    noisy.insert(at + topk.size() - 1, behind);
    CHECK(all_figures(read_text_log(noisy), false) == all_figures(plain, false));
  }
}

TEST_CASE("a terminal's texts are no part of a log") {
  CHECK(figure(read_text_log("GPU KV cache \x1b]0;title 9\asize: 1,0\x1b(B\x1b]8;;x\x1b\\24 tokens\n"),
               LogKey::kv_tokens) == "");
  CHECK(figure(read_text_log("GPU KV cache \x1b]0;title 9\asize: \x1b(B\x1b]8;;x\x1b\\1,024 tokens\n"),
               LogKey::kv_tokens) == "1024");
}

TEST_CASE("a last number wrapped inside is whole, by its message's words or by the line it stands on") {
  const std::string length = "estimated maximum model length is 110";
  CHECK(figure(read_text_log(length + "\n080. Try increasing\n"), LogKey::estimated_model_len) == "110080");
  CHECK(figure(read_text_log(length + "080.\n0%| 0/6\n"), LogKey::estimated_model_len) == "110080");
  const std::string sliced =
      "EXL3 rank-sliced runtime planned: Trellis m=1..6 block_m=8, prefill trellis block_m=64 capacity=1024 "
      "arena=1054.2 MiB scheduler_\ncapacity=3072 chunk=1024 topk=1";
  CHECK(figure(read_text_log(sliced + "\n6\nnext\n"), LogKey::sliced_topk) == "16");
  CHECK(figure(read_text_log(sliced + "\n6"), LogKey::sliced_topk) == "16");
  CHECK(figure(read_text_log(sliced + "\n6 warnings\n"), LogKey::sliced_topk) == "1");
}

TEST_CASE("a log whose experts are not those of the model it names is refused, and both places are named") {
  const auto refused = [](std::string_view from, std::string_view to) {
    std::string text = golden(kMixedDraft);
    text.replace(text.find(from), from.size(), to);
    Import import = import_text(text);
    assume_model(import);
    settle(import);
    return first_problem(import);
  };
  CHECK(refused("topk=8", "topk=8") == "");
  const std::string topk = refused("topk=8", "topk=6");
  CHECK(topk.find("/model/num_experts_per_tok is 6 in engine.log:") != std::string::npos);
  CHECK(topk.find("but 8 in from name") != std::string::npos);
  CHECK(refused("(3, 192)", "(3, 191)").find("/model/n_routed_experts is 255 in") != std::string::npos);
}

TEST_CASE("a line without end is refused, and no more of it is read") {
  EngineLogReader reader("engine.log");
  const std::string piece(std::size_t{1} << 20, '\0');
  for (int i = 0; i < 65; ++i) reader.feed(piece);
  CHECK(reader.is_refused());
  const EngineLog log = reader.finish();
  REQUIRE(log.problems.size() == 1);
  CHECK(log.problems[0].error.message == "a line of more than 64 MiB");
}
