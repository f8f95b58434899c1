// Engine command lines, shell texts and dotenv files.
#include "cli/import/dotenv.hpp"
#include "cli/import/shell.hpp"
#include "cli/import/sources.hpp"
#include "tests/catch.hpp"
#include "tests/unit/import_support.hpp"

using namespace moeplan;
using test::first_problem;
using test::from_of;
using test::value_at;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  const auto shell = read_shell(text, [](std::string_view) { return std::nullopt; });
  std::vector<std::string> words;
  for (const ShellCommand& command : shell.commands) {
    for (const ShellWord& word : command.words) words.push_back(word.text);
    words.push_back(";");
  }
  if (shell.problem) words.push_back("problem: " + shell.problem->message);
  return words;
}

Import import_text(std::string_view text) {
  Import import;
  import_vllm_text(import, "serve.sh", text);
  return import;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a shell text is cut into the words its shell would see") {
  CHECK(words_of("a 'b c' \"d\\\"e\" f\\ g") == Words{"a", "b c", "d\"e", "f g", ";"});
  CHECK(words_of("a \\\n  b # comment\nc") == Words{"a", "b", ";", "c", ";"});
  CHECK(words_of("a#b '#c'") == Words{"a#b", "#c", ";"});
  CHECK(words_of("A=1 x; B=\"2 3\"\ny && z") == Words{"x", ";", "y", ";", "z", ";"});
  CHECK(words_of("A='1 2'\nx $A \"$A\" ${B:-b} ${A+set}") == Words{"x", "1", "2", "1 2", "b", "set", ";"});
}

TEST_CASE("nothing a shell would have to run is run") {
  for (const char* text : {"a $(id)", "a `id`", "a \"$(id)\"", "a <<EOF"}) {
    INFO(text);
    CHECK(words_of(text).back().find("no shell is run") != std::string::npos);
  }
}

TEST_CASE("a quote that is never closed is an error at its place") {
  CHECK(first_problem(import_text("vllm serve m \\\n  --dtype 'bfloat16\n")) ==
        "serve.sh:2:11: a quote that is never closed");
  CHECK(first_problem(import_text("vllm serve $MODEL")).find("serve.sh:1:12: ${MODEL} is not set") == 0);
}

TEST_CASE("flags are read in every spelling the engine takes") {
  const char* const texts[] = {
      "vllm serve org/M --tensor-parallel-size 4 --max-num-seqs 16",
      "vllm serve org/M --tensor-parallel-size=4 --max-num-seqs=16",
      "vllm serve org/M -tp 4 --max_num_seqs 16",
      "A=b exec vllm serve --trust-remote-code org/M -tp 4 \\\n --max-num-seqs 16 \"$@\"",
      "python3 -m vllm.entrypoints.openai.api_server --model org/M -tp 4 --max-num-seqs 16",
      "docker run --gpus all -e X=y vllm/vllm-openai:v0.11 --model org/M -tp 4 --max-num-seqs 16",
      "bash -lc 'vllm serve org/M -tp 4 --max-num-seqs 16'",
  };
  for (const char* text : texts) {
    INFO(text);
    const Import import = import_text(text);
    CHECK(first_problem(import) == "");
    CHECK(import.model_name == "org/M");
    CHECK(value_at(import, "/parallel/tp") == "4");
    CHECK(value_at(import, "/deployment/max_num_seqs") == "16");
  }
}

TEST_CASE("a flag given twice says which value wins") {
  const Import import = import_text("vllm serve m --tensor-parallel-size 4 --tensor-parallel-size 8");
  CHECK(value_at(import, "/parallel/tp") == "8");
  REQUIRE(import.notes.size() == 1);
  CHECK(import.notes[0].find("given twice, \"4\" and \"8\": the last one wins") != std::string::npos);
}

TEST_CASE("values that are objects, lists and lengths with units are read") {
  const Import import = import_text(
      "vllm serve m --max-model-len 32k --gpu-memory-utilization 0.90 "
      "--speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 3}' "
      "--compilation-config '{\"cudagraph_capture_sizes\": [4, 8]}' "
      "--hf-overrides '{\"use_index_cache\": true, \"index_topk_pattern\": \"FFSF\"}'");
  CHECK(first_problem(import) == "");
  CHECK(value_at(import, "/deployment/max_model_len") == "32000");
  CHECK(value_at(import, "/deployment/gpu_memory_utilization") == "0.9");
  CHECK(value_at(import, "/deployment/num_speculative_tokens") == "3");
  CHECK(value_at(import, "/deployment/cudagraph_capture_sizes") == "[4, 8]");
  CHECK(value_at(import, "/model/index_full_layers") == "3");
  CHECK(value_at(import, "/deployment/indexer_cache") == "\"full_layers\"");
  CHECK(value_at(import_text("vllm serve m --max-model-len 32K"), "/deployment/max_model_len") == "32768");
  CHECK(value_at(import_text("vllm serve m --speculative-config.num_speculative_tokens 5"),
                 "/deployment/num_speculative_tokens") == "5");
}

TEST_CASE("a value the engine would refuse is an error at its place") {
  CHECK(first_problem(import_text("vllm serve m -tp four")).find("serve.sh:1:14:") == 0);
  CHECK(
      first_problem(import_text("vllm serve m --speculative-config '{\"a\": '")).find("is no JSON object") !=
      std::string::npos);
  CHECK(first_problem(import_text("echo hello")) == "serve.sh:1:1: no engine is started here");
  CHECK(first_problem(import_text("vllm serve a\nvllm serve b")) ==
        "serve.sh:2:1: a second engine is started here");
  CHECK(first_problem(import_text("vllm serve m -pp 2")).find("pipeline_parallel_size 2") !=
        std::string::npos);
}

TEST_CASE("only variables that decide memory are imported, and only those the engine sees") {
  const Import import = import_text(
      "export VLLM_EXL3_TRELLIS_MAX_M=64\nVLLM_EXL3_TRELLIS_BLOCK_M=16\nexport VLLM_API_KEY=secret "
      "HF_TOKEN=secret\n"
      "SPARKINFER_INDEXER_STREAM_SCORER=1 vllm serve m");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") == "\"64\"");
  CHECK(from_of(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") == "serve.sh:1 VLLM_EXL3_TRELLIS_MAX_M");
  CHECK(value_at(import, "/deployment/env/SPARKINFER_INDEXER_STREAM_SCORER") == "\"1\"");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_TRELLIS_BLOCK_M") == "");
  CHECK(import.notes[0].find("without export") != std::string::npos);
  for (const ImportRow& row : import.rows) CHECK(row.json.find("secret") == std::string::npos);
}

TEST_CASE("the environment of this process is read for allowed names alone") {
  ::setenv("MOEPLAN_TEST_TP", "4", 1);
  CHECK(first_problem(import_text("vllm serve m -tp $MOEPLAN_TEST_TP")).find("is not set here") !=
        std::string::npos);
  Import import;
  import.allowed_names = {"MOEPLAN_TEST_TP"};
  import_vllm_text(import, "serve.sh", "vllm serve m -tp $MOEPLAN_TEST_TP");
  CHECK(value_at(import, "/parallel/tp") == "4");
}

TEST_CASE("a dotenv file's quotes, comments and later lines are read as compose reads them") {
  Import import;
  const auto variables = read_dotenv(
      import, ".env", "A=1 # one\n# no\nexport B=\"two words\"\nC='$A'\nD=${A}x\n\nE=a#b\nF=\nPASSED\n");
  std::string all;
  for (const ShellVariable& v : variables) all += v.name + "=" + v.value + "|";
  CHECK(all == "A=1|B=two words|C=$A|D=1x|E=a#b|F=|");
  CHECK(import.problems.empty());
  read_dotenv(import, ".env", "A=1\n= 2\n");
  CHECK(first_problem(import) == ".env:2:1: a line without NAME=value");
}

TEST_CASE("launcher variables of a dotenv file are the engine's arguments") {
  Import import;
  import_env_text(import, ".env",
                  "TENSOR_PARALLEL_SIZE=4\nDCP=2\nCUDAGRAPH_CAPTURE_SIZES=4,8\nVLLM_EXL3_TRELLIS_MAX_M=64\n");
  CHECK(value_at(import, "/parallel/tp") == "4");
  CHECK(value_at(import, "/parallel/dcp") == "2");
  CHECK(value_at(import, "/deployment/cudagraph_capture_sizes") == "[4, 8]");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") == "\"64\"");
}

TEST_CASE("no message repeats a secret beside what is wrong, or a variable's value") {
  ::setenv("MOEPLAN_TEST_TOKEN", "s3cret", 1);
  const char* const texts[] = {
      "vllm serve m --max-num-seqs abc --api-key s3cret",
      "vllm serve m --api-key s3cret --dtype 'bfloat16",
      "export HF_TOKEN=s3cret\nvllm serve m --max-num-seqs \"$HF_TOKEN\"",
      "export HF_TOKEN=s3cret\nvllm serve m --quantization x$HF_TOKEN --kv-cache-dtype ${HF_TOKEN}",
      "vllm serve m --max-num-seqs $MOEPLAN_TEST_TOKEN",
      "vllm serve m --max-num-seqs ${s3cret",
      "vllm serve m --max-num-seqs ${A~s3cret}",
      "A=s3cret; vllm serve m --max-num-seqs $A --max-num-seqs x$A",
      "K=s3cret; bash -c \"vllm serve m --max-num-seqs $K\"",
      "echo s3cret",
  };
  const auto check = [](const Import& import) {
    CHECK(import.problems.size() + import.notes.size() > 0);
    for (const Problem& problem : import.problems) {
      CHECK((std::string(problem.place.text) + problem.error.message + problem.error.help).find("s3cret") ==
            std::string::npos);
      CHECK(problem.place.line > 0);
    }
    for (const std::string& note : import.notes) CHECK(note.find("s3cret") == std::string::npos);
  };
  for (const char* text : texts) {
    INFO(text);
    Import import;
    import.allowed_names = {"MOEPLAN_TEST_TOKEN"};
    import_vllm_text(import, "serve.sh", text);
    check(import);
  }
  for (const char* text :
       {"VLLM_API_KEY=\"s3cret", "s3cret and more", "A=${s3cret", "T=s3cret\nMAX_NUM_SEQS=$T\n"}) {
    INFO(text);
    Import import;
    import_env_text(import, ".env", text);
    check(import);
  }
  for (const char* command : {"vllm serve m --max-num-seqs abc --api-key s3cret", "vllm serve m 's3cret",
                              "[vllm, serve, m, --max-num-seqs, '${MOEPLAN_TEST_TOKEN}']"}) {
    INFO(command);
    Import import;
    import.allowed_names = {"MOEPLAN_TEST_TOKEN"};
    import_compose_text(import, "compose.yaml",
                        std::string("services:\n  a:\n    command: ") + command + "\n", "", "");
    check(import);
  }
  Import import;
  import_k8s_text(import, "pod.yaml",
                  "kind: Pod\nspec:\n  containers:\n    - env: [{name: T, value: s3cret}]\n"
                  "      command: [vllm, serve, m, --max-num-seqs, $(T), --api-key, s3cret]\n",
                  "");
  check(import);
  CHECK(first_problem(import).find("got the value of $T") != std::string::npos);
}

TEST_CASE("malformed lists and objects are errors") {
  for (const char* flag :
       {"--cudagraph-capture-sizes '[[[[[1,2'", "--cudagraph-capture-sizes '[[1,2]]'",
        "--cudagraph-capture-sizes '1,2]'", "--hf-overrides '[1'", "--hf-overrides abc",
        "--compilation-config '{\"cudagraph_capture_sizes\": 3}'", "--compilation-config x",
        "--compilation-config '{\"a\": 1} x'", "--compilation-config.cudagraph_capture_sizes '[1, 2'"}) {
    INFO(flag);
    CHECK(import_text(std::string("vllm serve m ") + flag).problems.size() == 1);
  }
  for (const char* flag : {"'[1,2]'", "1 2", "1,2"}) {
    INFO(flag);
    CHECK(value_at(import_text(std::string("vllm serve m --cudagraph-capture-sizes ") + flag),
                   "/deployment/cudagraph_capture_sizes") == "[1, 2]");
  }
  CHECK(first_problem(import_text("vllm serve m --compilation-config 3")) == "");
  Import import;
  import_env_text(import, ".env", "CUDAGRAPH_CAPTURE_SIZES=[1,2\n");
  CHECK(first_problem(import).find("no list of sizes") != std::string::npos);
}
