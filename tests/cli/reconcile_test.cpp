// moeplan reconcile as a user runs it: golden logs, the same logs with one figure changed, and logs as
// terminals, collectors and ranks leave them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reconcile/reconcile.hpp"
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"

using namespace moeplan;
using Json = nlohmann::json;
using test::run_moeplan;

namespace {

const std::string kFolder = "tests/golden/logs/";
const std::string kMixedDraft = "glm52_exl3_325_tp4_dcp4_mtp3_cap1024.log";
const std::string kNoDraft = "glm52_exl3_325_tp4_dcp4_mtp0_cap3072.log";
const std::string kRefused = "glm52_exl3_325_tp4_dcp4_mtp3_refused.log";
const std::string kNvfp4 = "glm51_nvfp4_tp8_dcp4_mtp3.log";

std::string golden(const std::string& name) {
  return test::read_file(MOEPLAN_SOURCE_DIR "/" + kFolder + name);
}

struct Answer {
  int exit_code;
  Json json;
  std::string err;

  // "match", "mismatch", "open", or "absent"; the first with that logged text.
  std::string of(const std::string& what, const std::string& logged = "") const {
    for (const Json& line : json["lines"]) {
      if (line["what"] != what || (!logged.empty() && line["logged"] != logged)) continue;
      return line["match"].is_null() ? "open" : line["match"] == true ? "match" : "mismatch";
    }
    return "absent";
  }
  std::string cell(const std::string& what, const char* key) const {
    for (const Json& line : json["lines"]) {
      if (line["what"] == what) return line[key].is_null() ? "" : line[key].get<std::string>();
    }
    return "absent";
  }
};

Answer reconcile_text(const std::string& log, const std::string& options = "") {
  const auto output = run_moeplan("reconcile - --format json " + options, log);
  return {output.exit_code, Json::parse(output.out, nullptr, false), output.err};
}

// The text with every `from` replaced; there has to be one.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size(), ++count)
    text.replace(at, from.size(), to);
  INFO(from);
  REQUIRE(count > 0);
  return text;
}

}  // namespace

TEST_CASE("every figure of the golden logs that can be derived matches") {
  struct Expected {
    const std::string& log;
    std::vector<std::pair<const char*, const char*>> figures;
  };
  const Expected logs[] = {{kMixedDraft,
                            {{"rank-sliced arena", "414.1"},
                             {"mixed buffers", "279.7"},
                             {"model loading", "83.57"},
                             {"requested memory", "87.41"},
                             {"available KV memory", "1.91"},
                             {"KV cache tokens", "257024"},
                             {"maximum concurrency", "1.96"},
                             {"equivalent utilization", "0.9171"},
                             {"increased utilization", "0.9229"},
                             {"graph pool difference", "0.14"},
                             {"suggested --kv-cache-memory-bytes, as requested", "2045293179"},
                             {"suggested --kv-cache-memory-bytes, all memory", "8708398592"}}},
                           {kNoDraft,
                            {{"mixed buffers", "759.8"},
                             {"model loading", "81.93"},
                             {"requested memory", "85.51"},
                             {"available KV memory", "1.94"},
                             {"KV cache tokens", "264960"},
                             {"maximum concurrency", "2.02"},
                             {"equivalent utilization", "0.8981"},
                             {"increased utilization", "0.9019"},
                             {"graph pool difference", "0.13"},
                             {"suggested --kv-cache-memory-bytes, as requested", "2068677018"},
                             {"suggested --kv-cache-memory-bytes, all memory", "10772113408"}}},
                           {kRefused,
                            {{"rank-sliced arena", "1054.2"},
                             {"mixed buffers", "759.8"},
                             {"model loading", "83.57"},
                             {"KV needed for one request", "0.98"},
                             {"estimated maximum model length", "110080"}}},
                           {kNvfp4,
                            {{"model loading", "56.62"},
                             {"KV cache tokens", "1271040"},
                             {"maximum concurrency", "6.27"},
                             {"graph pool difference", "4.11"}}}};
  for (const auto& [log, figures] : logs) {
    const auto output = run_moeplan("reconcile --format json " + kFolder + log);
    INFO(output.out << output.err);
    CHECK(output.exit_code == 0);
    const Answer answer{output.exit_code, Json::parse(output.out), output.err};
    for (const auto& [what, logged] : figures) {
      INFO(what << " " << logged);
      CHECK(answer.of(what, logged) == "match");
    }
    CHECK(answer.json["totals"]["matches"] == figures.size());
    CHECK(answer.json["totals"]["mismatches"] == 0);
  }
}

TEST_CASE("a figure that lacks its inputs is not derivable and says why") {
  const Answer refused = reconcile_text(golden(kRefused));
  CHECK(refused.of("available KV memory") == "open");
  CHECK(refused.cell("available KV memory", "why").find("does not print requested memory, weights") !=
        std::string::npos);
  CHECK(refused.of("equivalent utilization") == "open");
  CHECK(refused.of("KV cache tokens") == "absent");
  const Answer unprofiled = reconcile_text(golden(kNvfp4));
  CHECK(unprofiled.of("available KV memory") == "open");
}

TEST_CASE("token intervals contain both ends of what the available memory can be") {
  const Answer answer = reconcile_text(golden(kMixedDraft));
  CHECK(answer.cell("KV cache tokens", "predicted") == "255744..257024");
  for (const char* tokens : {"255,744", "256,000", "257,024"})
    CHECK(reconcile_text(replaced(golden(kMixedDraft), "257,024 tokens", tokens + std::string(" tokens")))
              .of("KV cache tokens") == "match");
  for (const char* tokens : {"255,488", "257,280"})
    CHECK(reconcile_text(replaced(golden(kMixedDraft), "257,024 tokens", tokens + std::string(" tokens")))
              .of("KV cache tokens") == "mismatch");
}

TEST_CASE("a figure changed by more than its tolerance is named, and the exit code is 1") {
  struct Change {
    const std::string& log;
    const char *from, *to, *what;
  };
  const Change changes[] = {
      {kMixedDraft, "arena=414.1MiB", "arena=414.2MiB", "rank-sliced arena"},
      {kMixedDraft, "buffers=279.7", "buffers=279.6", "mixed buffers"},
      {kMixedDraft, "prefill_capacity=1024", "prefill_capacity=2048", "mixed buffers"},
      {kMixedDraft, "(0.92, 87.41 GiB)", "(0.92, 87.43 GiB)", "requested memory"},
      {kMixedDraft, "1.41 GiB for peak", "1.51 GiB for peak", "available KV memory"},
      {kMixedDraft, "KV cache memory: 1.91 GiB", "KV cache memory: 1.96 GiB", "available KV memory"},
      {kMixedDraft, "257,024 tokens", "258,048 tokens", "KV cache tokens"},
      {kMixedDraft, "request: 1.96x", "request: 1.98x", "maximum concurrency"},
      {kMixedDraft, "utilization=0.9171", "utilization=0.9174", "equivalent utilization"},
      {kMixedDraft, "utilization to 0.9229", "utilization to 0.9226", "increased utilization"},
      {kMixedDraft, "difference: 0.14", "difference: 0.16", "graph pool difference"},
      {kMixedDraft, "bytes=2045293179", "bytes=2145293179",
       "suggested --kv-cache-memory-bytes, as requested"},
      {kMixedDraft, "bytes=8708398592", "bytes=8798398592", "suggested --kv-cache-memory-bytes, all memory"},
      {kNvfp4, "took 56.62 GiB memory", "took 46.62 GiB memory", "model loading"},
      {kNvfp4, "1,271,040 tokens", "1,301,040 tokens", "KV cache tokens"},
      {kRefused, "arena=1054.2MiB", "arena=1054.1MiB", "rank-sliced arena"},
      {kRefused, "(0.98 GiB", "(0.99 GiB", "KV needed for one request"},
      {kRefused, "model length is 110080", "model length is 112640", "estimated maximum model length"}};
  for (const Change& change : changes) {
    const std::string log = replaced(golden(change.log), change.from, change.to);
    const Answer answer = reconcile_text(log);
    INFO(change.from << " -> " << change.to << "\n" << answer.json.dump(1) << answer.err);
    CHECK(answer.exit_code == 1);
    CHECK(answer.of(change.what) == "mismatch");
    CHECK(answer.json["verdict"].get<std::string>().find(std::string(change.what) + " ") !=
          std::string::npos);
    const auto quiet = run_moeplan("reconcile -q -", log);
    CHECK(quiet.exit_code == 1);
    CHECK(quiet.out.find("DIFFERS") != std::string::npos);
  }
}

TEST_CASE("a changed figure of another start does not make its neighbours match by itself") {
  // Nothing but the token line follows from the available memory: the others still match.
  const Answer answer = reconcile_text(replaced(golden(kMixedDraft), "257,024 tokens", "300,000 tokens"));
  CHECK(answer.of("available KV memory") == "match");
  CHECK(answer.of("maximum concurrency") == "mismatch");
}

TEST_CASE("tokens of the other nvfp4 record are a mismatch that names it, and --set states it") {
  // 1.91 GiB hold 1,004 blocks of 368-byte records, and 867 of 432-byte ones.
  const std::string log = replaced(replaced(golden(kMixedDraft), "257,024 tokens", "221,696 tokens"),
                                   "request: 1.96x", "request: 1.69x");
  const Answer assumed = reconcile_text(log);
  CHECK(assumed.exit_code == 1);
  CHECK(assumed.of("KV cache tokens") == "mismatch");
  CHECK(assumed.cell("KV cache tokens", "why").find("432 B give 220928..221952") != std::string::npos);
  CHECK(reconcile_text(log, "--set /deployment/kv_record_bytes=432").exit_code == 0);
  const Answer wrong = reconcile_text(golden(kMixedDraft), "--set /deployment/kv_record_bytes=432");
  CHECK(wrong.cell("KV cache tokens", "why").find("368 B give 255744..257024") != std::string::npos);
}

TEST_CASE("a log cut at any line end never differs, and never aborts") {
  for (const std::string& name : {kMixedDraft, kRefused, kNvfp4}) {
    const std::string log = golden(name);
    for (std::size_t end = 0; (end = log.find('\n', end)) != std::string::npos; end += 1) {
      if (log.substr(end + 1).starts_with("Capturing")) continue;  // progress bars add nothing
      const auto output = run_moeplan("reconcile -q -", log.substr(0, end + 1));
      INFO(name << " " << end << "\n" << output.out << output.err);
      CHECK((output.exit_code == 0 || (output.exit_code == 3 && output.out.empty())));
    }
  }
}

TEST_CASE("a log cut inside the engine's arguments is an input error with its place") {
  const std::string log = golden(kMixedDraft);
  const auto cut = run_moeplan("reconcile -", log.substr(0, log.find("non-default args: {") + 200));
  CHECK(cut.exit_code == 3);
  CHECK(cut.err.find("stdin:") != std::string::npos);
  CHECK(cut.err.find("the log ends inside them") != std::string::npos);
}

TEST_CASE("a log without its beginning compares what follows from its own figures") {
  const std::string log = golden(kMixedDraft);
  const Answer answer = reconcile_text(log.substr(log.find("Estimated MRV2")));
  CHECK(answer.exit_code == 0);
  CHECK(answer.of("requested memory") == "match");
  CHECK(answer.of("available KV memory") == "match");
  CHECK(answer.of("KV cache tokens") == "open");
  CHECK(answer.cell("KV cache tokens", "why").find("from its beginning") != std::string::npos);
}

TEST_CASE("a text that is no engine log is an input error, an engine log without figures is not") {
  for (const char* text : {"", "hello\nworld\n", "{\"schema_version\": 1}"}) {
    const auto output = run_moeplan("reconcile -", text);
    CHECK(output.exit_code == 3);
    CHECK(output.out.empty());
    CHECK(output.err.find("no engine start") != std::string::npos);
  }
  const std::string log = golden(kMixedDraft);
  const auto silent =
      run_moeplan("reconcile -", log.substr(0, log.find("(Worker_TP2_DCP2 pid=163778) INFO 07-31 06:30:47")));
  CHECK(silent.exit_code == 0);
  CHECK(silent.out.find("NOTHING TO COMPARE") != std::string::npos);
  CHECK(run_moeplan("reconcile /nonexistent.log").exit_code == 3);
  CHECK(run_moeplan("reconcile").exit_code == 2);
  CHECK(run_moeplan("reconcile - --contract nothing").exit_code == 2);
}

TEST_CASE("two engines in one log are refused, one started twice is compared") {
  CHECK(run_moeplan("reconcile -", golden(kMixedDraft) + golden(kNvfp4)).exit_code == 3);
  const Answer twice = reconcile_text(golden(kMixedDraft) + golden(kMixedDraft));
  CHECK(twice.exit_code == 0);
  CHECK(twice.json["totals"]["matches"] == 12);
  const std::string other_start =
      replaced(replaced(golden(kMixedDraft), "memory: 1.91 GiB", "memory: 1.90 GiB"), "257,024", "255,744");
  const Answer restarted = reconcile_text(golden(kMixedDraft) + other_start);
  CHECK(restarted.exit_code == 0);
  CHECK(restarted.of("KV cache tokens", "257024") == "match");
  CHECK(restarted.of("KV cache tokens", "255744") == "match");
}

TEST_CASE("ranks that repeat a line count once a distinct value") {
  const Answer answer = reconcile_text(
      golden(kMixedDraft) + "(Worker_TP1 pid=9) INFO Model loading took 83.28 GiB and 31.0 seconds\n");
  int loading = 0;
  for (const Json& line : answer.json["lines"]) loading += line["what"] == "model loading";
  CHECK(loading == 2);
}

TEST_CASE("colours, carriage returns, collectors and wrapping change no answer") {
  const std::string log = golden(kMixedDraft);
  const Json plain = reconcile_text(log).json["lines"];
  const auto without_places = [](Json lines) {
    for (Json& line : lines) line.erase("line");
    return lines;
  };
  std::string coloured, prefixed, wrapped;
  std::size_t column = 0;
  prefixed = "vllm-1  | ";
  for (char c : log) {
    column = c == '\n' ? 0 : column + 1;
    if (c == '\n') coloured += "\x1b[0m\r";
    coloured += c;
    if (c == '\n') coloured += "\x1b[36m";
    prefixed += c;
    if (c == '\n') prefixed += "vllm-1  | ";
    wrapped += c;
    if (column == 96) wrapped += '\n', column = 0;
  }
  CHECK(without_places(reconcile_text(coloured).json["lines"]) == without_places(plain));
  CHECK(reconcile_text(prefixed).json["lines"] == plain);
  CHECK(without_places(reconcile_text(wrapped).json["lines"]) == without_places(plain));
}

TEST_CASE("what is compared is a closed list, and every line of an answer is on it") {
  const auto names = reconciled_figures();
  CHECK(names.size() == 15);
  for (const std::string& log : {kMixedDraft, kNoDraft, kRefused, kNvfp4}) {
    for (const Json& line : reconcile_text(golden(log)).json["lines"]) {
      const bool listed = std::ranges::any_of(names, [&](const FigureName& name) {
        return line["what"] == name.what && line["unit"] == name.unit && line["rule"] == name.rule;
      });
      CHECK(listed);
      CHECK((line["match"].is_null() ? line["why"].is_string() && line["predicted"].is_null()
                                     : line["predicted"].is_string()));
    }
  }
}

TEST_CASE("the table opens with its verdict") {
  const auto output = run_moeplan("reconcile " + kFolder + kMixedDraft);
  CHECK(output.out.starts_with(kMixedDraft + ": MATCHES"));
  const auto ascii = run_moeplan("reconcile --ascii --width 60 " + kFolder + kMixedDraft);
  CHECK(std::ranges::all_of(ascii.out, [](char c) { return static_cast<unsigned char>(c) < 128; }));
}

TEST_CASE("a log of 50 MB of progress bars gives the same answer") {
  const std::string log = golden(kMixedDraft);
  std::string bars;
  for (std::size_t at = 0; (at = log.find("Capturing", at)) != std::string::npos;) {
    const std::size_t end = log.find('\n', at);
    bars += log.substr(at, end + 1 - at);
    at = end;
  }
  std::string large = log;
  while (large.size() < (std::size_t{50} << 20)) large += bars;
  const auto answer = run_moeplan("reconcile -q -", large);
  CHECK(answer.exit_code == 0);
  CHECK(answer.out.find("MATCHES · 12 of 12") != std::string::npos);
}

TEST_CASE("absurd numbers in a log are differences or underivable, never a crash") {
  const std::string log = golden(kMixedDraft);
  for (const char* number : {"0", "0.00", "999999999", "4611686018427387904", "99999999999999999999999"}) {
    for (const char* figure : {"1.91 GiB", "87.41", "95.01", "1.41 GiB", "0.27 GiB", "257,024", "131,072",
                               "1.96x", "arena=414.1", "0.9171", "=0.9200", "capacity=1024", "2045293179"}) {
      std::string digits = figure;
      const auto begin = digits.find_first_of("0123456789");
      const auto end = digits.find_first_not_of("0123456789.,", begin);
      digits.replace(begin, (end == std::string::npos ? digits.size() : end) - begin, number);
      const auto output = run_moeplan("reconcile -q -", replaced(log, figure, digits));
      INFO(figure << " -> " << digits << "\n" << output.out << output.err);
      CHECK((output.exit_code == 0 || output.exit_code == 1 || output.exit_code == 3));
    }
  }
}

TEST_CASE("blocks and bytes that the arguments pin take the place of the available memory") {
  const std::string log = golden(kMixedDraft);
  const auto with = [&](const char* argument) {
    return replaced(log, "non-default args: {", std::string("non-default args: {") + argument + ", ");
  };
  CHECK(reconcile_text(with("'num_gpu_blocks_override': 1004")).cell("KV cache tokens", "predicted") ==
        "257024");
  CHECK(reconcile_text(with("'num_gpu_blocks_override': 900")).of("KV cache tokens") == "mismatch");
  CHECK(reconcile_text(with("'kv_cache_memory_bytes': 2054650000")).of("KV cache tokens") == "match");
}

TEST_CASE("a figure without a prediction neither matches nor differs") {
  const Answer answer =
      reconcile_text(replaced(golden(kMixedDraft), "257,024 tokens", "999999999999999999999999 tokens"));
  CHECK(answer.of("maximum concurrency") == "open");
  for (const Json& line : answer.json["lines"]) {
    if (line["predicted"].is_null()) CHECK(line["match"].is_null());
  }
}
