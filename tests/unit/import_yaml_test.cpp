// Compose files and Kubernetes manifests.
#include "cli/import/sources.hpp"
#include "cli/import/yaml.hpp"
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/unit/import_support.hpp"

using namespace moeplan;
using test::first_problem;
using test::from_of;
using test::value_at;

namespace {

Import import_compose_of(std::string_view text, const std::string& folder = "",
                         const std::string& service = "") {
  Import import;
  import_compose_text(import, "compose.yml", text, folder, service);
  return import;
}

Import import_k8s_of(std::string_view text, const std::string& object = "") {
  Import import;
  import_k8s_text(import, "k8s.yml", text, object);
  return import;
}

}  // namespace

TEST_CASE("a compose service's command is read as a text, a folded text or a list") {
  const char* const commands[] = {
      "command: vllm serve org/M -tp 4 --max-num-seqs 16",
      "command: >\n      vllm serve org/M\n      -tp 4\n      --max-num-seqs=16",
      "command: |\n      vllm serve org/M \\\n        -tp 4 \\\n        --max-num-seqs 16",
      "command: [\"vllm\", \"serve\", \"org/M\", \"-tp\", \"4\", \"--max-num-seqs\", \"16\"]",
      "command: [\"bash\", \"-c\", \"exec vllm serve org/M -tp 4 --max-num-seqs 16\"]",
      "image: vllm/vllm-openai:v0.11\n    command: --model org/M -tp 4 --max-num-seqs 16",
      "entrypoint: [vllm, serve]\n    command: [org/M, -tp, 4, --max-num-seqs, 16]",
  };
  for (const char* command : commands) {
    INFO(command);
    const Import import = import_compose_of(std::string("services:\n  llm:\n    ") + command + "\n");
    CHECK(first_problem(import) == "");
    CHECK(import.model_name == "org/M");
    CHECK(value_at(import, "/parallel/tp") == "4");
    CHECK(value_at(import, "/deployment/max_num_seqs") == "16");
  }
}

TEST_CASE("compose variables take their defaults as compose defines them, and no process environment") {
  ::setenv("MOEPLAN_TEST_TP", "8", 1);
  const auto tp = [](const std::string& word) {
    return value_at(import_compose_of("services:\n  llm:\n    command: vllm serve m -tp " + word + "\n"),
                    "/parallel/tp");
  };
  CHECK(tp("${MOEPLAN_TEST_TP:-4}") == "4");
  CHECK(tp("${MOEPLAN_TEST_TP-2}") == "2");
  CHECK(tp("${A:-${B:-1}}") == "1");
  const Import missing = import_compose_of("services:\n  llm:\n    command: vllm serve m -tp ${TP}\n");
  CHECK(first_problem(missing).find("compose.yml:3:14: ${TP} is not set here") == 0);
  CHECK(first_problem(import_compose_of("services:\n  llm:\n    command: vllm serve m -tp ${TP:?how many}\n"))
            .find("how many") != std::string::npos);
}

TEST_CASE("environments are maps, lists, merged anchors and files beside the compose file") {
  const test::TemporaryFolder folder;
  folder.write("moe.env", "VLLM_EXL3_TRELLIS_MAX_M=48\nVLLM_EXL3_TRELLIS_BLOCK_M=16\n");
  folder.write(".env", "MBT=2048\n");
  const Import import = import_compose_of(
      "x-env: &env\n  VLLM_EXL3_PREFILL_CAPACITY: 1024\nservices:\n  llm:\n    env_file: [moe.env]\n    "
      "environment:\n"
      "      <<: *env\n      VLLM_EXL3_TRELLIS_MAX_M: 64\n    command: vllm serve m --max-num-batched-tokens "
      "${MBT}\n"
      "  db:\n    image: postgres\n",
      folder.path());
  CHECK(first_problem(import) == "");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") == "\"64\"");
  CHECK(from_of(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") ==
        "compose.yml:8 VLLM_EXL3_TRELLIS_MAX_M");
  CHECK(from_of(import, "/deployment/env/VLLM_EXL3_TRELLIS_BLOCK_M") ==
        "moe.env:2 VLLM_EXL3_TRELLIS_BLOCK_M");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_PREFILL_CAPACITY") == "\"1024\"");
  CHECK(value_at(import, "/deployment/max_num_batched_tokens") == "2048");
  CHECK(from_of(import, "/deployment/max_num_batched_tokens") == "compose.yml:9 --max-num-batched-tokens");
}

TEST_CASE("files named inside a compose file stay under its folder") {
  const test::TemporaryFolder folder;
  REQUIRE(::symlink("/etc/passwd", (folder.path() + "/link.env").c_str()) == 0);
  REQUIRE(::symlink("/dev/zero", (folder.path() + "/zero.env").c_str()) == 0);
  for (const char* path : {"/etc/passwd", "../../etc/passwd", "link.env", "zero.env", "missing.env", "."}) {
    INFO(path);
    const Import import = import_compose_of(
        std::string("services:\n  llm:\n    env_file: ") + path + "\n    command: vllm serve m\n",
        folder.path());
    REQUIRE(first_problem(import).find("compose.yml:3:15: cannot read ") == 0);
  }
  folder.write("big.env", std::string((1 << 20) + 1, '#'));
  CHECK(
      first_problem(import_compose_of("services:\n  llm:\n    env_file: big.env\n    command: vllm serve m\n",
                                      folder.path()))
          .find("longer than 1 MiB") != std::string::npos);
}

TEST_CASE("a service extends another, of its own file or of one beside it") {
  const test::TemporaryFolder folder;
  folder.write(
      "base.yml",
      "services:\n  base:\n    environment: [VLLM_EXL3_TRELLIS_MAX_M=64]\n    command: vllm serve m -tp 4\n");
  const Import import = import_compose_of(
      "services:\n  llm:\n    extends: {file: base.yml, service: base}\n    environment: "
      "[VLLM_EXL3_TRELLIS_BLOCK_M=8]\n",
      folder.path());
  CHECK(first_problem(import) == "");
  CHECK(value_at(import, "/parallel/tp") == "4");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") == "\"64\"");
  CHECK(value_at(import, "/deployment/env/VLLM_EXL3_TRELLIS_BLOCK_M") == "\"8\"");
  CHECK(first_problem(import_compose_of("services:\n  a:\n    extends: b\n  b:\n    extends: a\n", "", "a"))
            .find("more than 8 services") != std::string::npos);
}

TEST_CASE("several services ask for a choice, and broken YAML names its place") {
  const char* const two = "services:\n  a:\n    command: vllm serve x\n  b:\n    command: vllm serve y\n";
  CHECK(first_problem(import_compose_of(two)).find("several services") != std::string::npos);
  CHECK(import_compose_of(two, "", "b").model_name == "y");
  CHECK(first_problem(import_compose_of(two, "", "c")).find("no service is named c") != std::string::npos);
  CHECK(first_problem(import_compose_of("services:\n  a:\n   - b\n  c: [\n")).find("compose.yml:5:") == 0);
  CHECK(first_problem(import_compose_of("services:\n  a: 1\n  a: 2\n"))
            .find("compose.yml:3:3: \"a\" stands twice") == 0);
}

TEST_CASE("aliases are bounded in number and cannot multiply") {
  std::string text = "a: &a 1\nb:\n";
  for (int i = 0; i < 1001; ++i) text += "- *a\n";
  CHECK(read_yaml(text).error == "more than 1000 aliases");
  std::string bomb = "services:\n  llm:\n    command: vllm serve m\n    environment: *e9\n";
  std::string anchors = "x0: &e0 {A: b}\n";
  for (int i = 1; i < 10; ++i) {
    const std::string below = "*e" + std::to_string(i - 1);
    anchors += "x" + std::to_string(i) + ": &e" + std::to_string(i) + " {<<: [";
    for (int j = 0; j < 10; ++j) anchors += (j ? ", " : "") + below;
    anchors += "]}\n";
  }
  CHECK(first_problem(import_compose_of(anchors + bomb)) == "");
}

TEST_CASE(
    "Kubernetes workloads give the command, the arguments and the environment of the engine's container") {
  const std::string container =
      "      containers:\n      - name: proxy\n        image: nginx\n      - name: engine\n        image: "
      "vllm/vllm-openai:v0.11\n"
      "        args: [--model, org/M, -tp, \"$(TP)\", --max-num-seqs, \"16\"]\n        env:\n"
      "        - {name: TP, value: \"4\"}\n        - {name: VLLM_EXL3_TRELLIS_MAX_M, value: \"64\"}\n"
      "        - name: HF_TOKEN\n          valueFrom: {secretKeyRef: {name: s, key: t}}\n";
  for (const char* kind : {"Deployment", "StatefulSet"}) {
    INFO(kind);
    const Import import =
        import_k8s_of(std::string("kind: Service\nspec: {}\n---\nkind: ") + kind +
                      "\nmetadata: {name: llm}\nspec:\n  template:\n    spec:\n" + container);
    CHECK(first_problem(import) == "");
    CHECK(import.model_name == "org/M");
    CHECK(value_at(import, "/parallel/tp") == "4");
    CHECK(value_at(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") == "\"64\"");
    CHECK(from_of(import, "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M") == "k8s.yml:17 VLLM_EXL3_TRELLIS_MAX_M");
  }
  const Import group = import_k8s_of(
      "kind: LeaderWorkerSet\nspec:\n  leaderWorkerTemplate:\n    leaderTemplate:\n      spec:\n        "
      "containers:\n"
      "        - command: [sh, -c, 'ray start; vllm serve org/M -tp 16']\n");
  CHECK(first_problem(group) == "");
  CHECK(value_at(group, "/parallel/tp") == "16");
  CHECK(first_problem(import_k8s_of("kind: Service\n")).find("no workload here; kinds: Service") !=
        std::string::npos);
}
