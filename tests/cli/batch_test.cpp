// moeplan batch, run as a program runs it.
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

std::vector<Json> answers(const Output& run) {
  std::vector<Json> lines;
  std::istringstream text(run.out);
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::string request(const std::string& id) {
  Json line = read_lines("tests/golden/moe_w4a16.jsonl")[0]["request"];
  line["id"] = id;
  return line.dump();
}

}  // namespace

TEST_CASE("batch answers in order, goes on after a bad line and names the line") {
  const Output run =
      run_moeplan("batch", request("a") + "\nnonsense\n\n" + request("b") + "\n{\"id\":\"c\"}\n[1]");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  const auto lines = answers(run);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0]["id"] == "a");
  CHECK(lines[0].contains("layout"));
  CHECK(lines[1]["id"].is_null());
  CHECK(lines[1]["line"] == 2);
  CHECK(lines[1]["error"]["code"] == "invalid_json");
  CHECK(lines[2]["id"] == "b");
  CHECK(lines[3]["id"] == "c");
  CHECK(lines[3]["error"]["code"] == "missing_field");
  CHECK(lines[3]["error"]["pointer"] == "/kind");
  CHECK(lines[4]["error"]["code"] == "wrong_type");
}

TEST_CASE("option --fail-on-error turns an error response into code 1") {
  CHECK(run_moeplan("batch --fail-on-error", request("a")).exit_code == 0);
  CHECK(run_moeplan("batch --fail-on-error", request("a") + "\nnonsense").exit_code == 1);
}

TEST_CASE("option --input reads a file and a missing one is code 3") {
  const TemporaryFolder folder;
  const std::string path = folder.write("requests.jsonl", request("from file") + "\n");
  CHECK(answers(run_moeplan("batch --input " + path))[0]["id"] == "from file");
  CHECK(run_moeplan("batch --input " + folder.path() + "/absent").exit_code == 3);
  CHECK(run_moeplan("batch --input " + folder.path()).exit_code == 3);
}

TEST_CASE("a line beyond 256 KiB is refused and the next one answered") {
  const auto lines = answers(run_moeplan("batch", std::string(1 << 20, 'x') + "\n" + request("next")));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["error"]["code"] == "too_large");
  CHECK(lines[1]["id"] == "next");
  CHECK(lines[1].contains("layout"));
}

TEST_CASE("fields of another kind or contract are refused, null is not giving them") {
  Json line = Json::parse(request("x"));
  line["capacity"]["global_experts"] = nullptr;
  CHECK(answers(run_moeplan("batch", line.dump()))[0].contains("layout"));
  line["capacity"]["global_experts"] = 160;
  const Json refused = answers(run_moeplan("batch", line.dump()))[0];
  CHECK(refused["error"]["code"] == "field_not_in_kind");
  CHECK(refused["error"]["pointer"] == "/capacity/global_experts");
}

TEST_CASE("every bound of a request is checked") {
  const std::pair<const char*, std::int64_t> kBounds[] = {
      {"/capacity/max_tokens", (std::int64_t{1} << 24) + 1},
      {"/capacity/top_k", 4097},
      {"/weights/experts", 65537},
      {"/weights/hidden_size", (1 << 20) + 1},
      {"/weights/intermediate_size", (1 << 20) + 1},
      {"/device/sm_count", 4097}};
  for (const auto& [pointer, value] : kBounds) {
    Json line = Json::parse(request("x"));
    line[Json::json_pointer(pointer)] = value;
    const Json refused = answers(run_moeplan("batch", line.dump()))[0];
    INFO(refused.dump());
    CHECK(refused["error"]["code"] == "out_of_range");
    CHECK(refused["error"]["pointer"] == pointer);
  }
}

#ifndef __SANITIZE_ADDRESS__  // a sanitizer's shadow needs terabytes of address space
TEST_CASE("batch reads only as much as it needs: 20,000 lines in constant memory") {
  std::string input;
  const std::string line = request("n") + "\n";
  for (int i = 0; i < 20'000; ++i) input += line;
  // 40 MiB of address space hold the program, not the answers.
  const Output run =
      run_moeplan("version >/dev/null && ulimit -v 40960 && '" MOEPLAN_BINARY "' batch", input);
  CHECK(run.exit_code == 0);
  CHECK(std::count(run.out.begin(), run.out.end(), '\n') == 20'000);
}
#endif
