// moeplan sweep, run as a user runs it.
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "planner/core/text.hpp"
#include "tests/cli/process.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr const char* kCapacities =
    "sweep -c configs/glm52.json --axis capacity=512,1024,1536,2048,3072,8192 ";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json sweep_json(const std::string& arguments) {
  const Output run = run_moeplan(arguments + " --format json");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out);
}

std::vector<std::vector<std::string>> csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    REQUIRE(line.ends_with('\r'));
    line.pop_back();
    rows.emplace_back();
    std::istringstream fields(line + ",");
    for (std::string field; std::getline(fields, field, ',');) rows.back().push_back(field);
  }
  return rows;
}

std::string digits_of(std::string text) {
  std::erase(text, ',');
  return text;
}

}  // namespace

TEST_CASE("sweep prints the capacities of GLM-5.2 to the byte, with KV tokens and launches") {
  const Json report = sweep_json(kCapacities);
  const std::tuple<i64, i64, i64, i64, i64> rows[] = {
      {512, 266'425'560, 52'473, 6, 4'096},    {1'024, 434'214'360, 41'978, 3, 8'192},
      {1'536, 602'003'160, 31'484, 2, 12'288}, {2'048, 769'791'960, 20'989, 2, 16'384},
      {3'072, 1'105'369'560, 0, 1, 24'576},    {8'192, 2'783'257'560, -162'664, 1, 65'536}};
  REQUIRE(report["points"].size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto& [capacity, prefill, tokens, launches, per_launch] = rows[i];
    const Json& point = report["points"][i];
    CHECK(point["capacity"] == capacity);
    CHECK(report["arenas"][i]["prefill"] == prefill);
    CHECK(point["kv_tokens"] == tokens);
    CHECK(point["launches"] == launches);
    CHECK(point["rows"] == per_launch);
    CHECK(point["configured"] == (capacity == 3'072));
    CHECK(point["error"].is_null());
    i64 sum = 0;
    for (const auto& [key, value] : report["arenas"][i].items())
      sum += key == "capacity" ? 0 : value.get<i64>();
    CHECK(point["bytes"] == sum);
  }
  // The configured point is what `size` says.
  const Output size = run_moeplan("size -c configs/glm52.json --format json");
  const Json totals = Json::parse(size.out)["totals"];
  CHECK(report["points"][4]["bytes"] ==
        totals["per_rank_bytes"].get<i64>() + totals["indexer_per_rank_bytes"].get<i64>());
  CHECK(contains(run_moeplan(kCapacities).out, "1 point is of a deployment that schedules as many tokens"));
}

TEST_CASE("the table of one arena reads as its operator reads it") {
  const Output run = run_moeplan(std::string(kCapacities) + "--arena prefill");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK(run.out.starts_with("glm52: prefill 266,425,560 B (254.08 MiB) at capacity 512 to 2,783,257,560 B "));
  CHECK(contains(
      run.out, "     512    266,425,560    254.08     -800.08    +52,473               6        4,096  ▁\n"));
  CHECK(contains(
      run.out,
      "1,105,369,560  1,054.16        0.00          0               1       24,576  ▄  configured\n"));
  std::istringstream lines(run.out.substr(run.out.find("CAPACITY")));
  for (std::string line; std::getline(lines, line) && !line.empty();) CHECK(line.size() <= 110);
  const std::string ascii = run_moeplan(std::string(kCapacities) + "--ascii --plot term").out;
  CHECK(std::ranges::all_of(ascii, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  CHECK(contains(ascii, "MiB +"));
}

TEST_CASE("points that cannot be planned are rows with their word and do not stop the sweep") {
  const Output run = run_moeplan("sweep -c configs/glm52.json --axis tp=2,3,4,6");
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "4 points, 2 of them cannot be planned"));
  const Json report = sweep_json("sweep -c configs/glm52.json --axis tp=2,3,4,6");
  CHECK(report["totals"]["failed_points"] == 2);
  CHECK(report["points"][1]["error"] == "indivisible");
  CHECK(report["points"][1]["bytes"].is_null());
  const Output none = run_moeplan("sweep -c configs/glm52.json --axis tp=3");
  CHECK(none.exit_code == 0);
  CHECK(none.out.starts_with("glm52: no point can be planned"));
  const Output csv = run_moeplan("sweep -c configs/glm52.json --axis tp=3,4 --format csv");
  CHECK(csv_rows(csv.out)[1].back() == "indivisible");
  CHECK(csv.err == "note: 1 of 2 points cannot be planned: see their error\n");
}

TEST_CASE("CSV, JSON lines and the table have the same numbers") {
  const std::string arguments =
      "sweep -c configs/glm52.json --axis tp=2..6:x2,3 --axis capacity=100..4000:+777 "
      "--axis /deployment/dtype=bfloat16,float16 ";
  const Json points = sweep_json(arguments)["points"];
  const auto rows = csv_rows(run_moeplan(arguments + "--format csv").out);
  std::istringstream lines(run_moeplan(arguments + "--format jsonl").out);
  REQUIRE(rows.size() == points.size() + 1);
  const auto& header = rows[0];
  CHECK(header == std::vector<std::string>{"tp", "capacity", "/deployment/dtype", "bytes", "mib",
                                           "change_bytes", "kv_tokens", "launches", "rows", "error"});
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::string line;
    REQUIRE(std::getline(lines, line));
    const Json object = Json::parse(line);
    REQUIRE(rows[i + 1].size() == header.size());
    for (std::size_t c = 0; c < header.size(); ++c) {
      if (header[c] == "mib") continue;
      const Json& value = points[i][header[c]];
      CHECK(object[header[c]] == value);
      CHECK(rows[i + 1][c] == (value.is_null()     ? ""
                               : value.is_string() ? value.get<std::string>()
                                                   : value.dump()));
    }
  }
  std::string rest;
  CHECK(!std::getline(lines, rest));
}

TEST_CASE("a selection streams as the table shows it") {
  const std::string arguments = "sweep -c configs/glm52.json --axis tp=1..8:x2 --axis capacity=64..3072:x2 ";
  for (const std::string selection :
       {"--sort bytes:desc --top 3", "--pareto bytes,launches", "--sort launches"}) {
    const Json points = sweep_json(arguments + selection)["points"];
    const auto rows = csv_rows(run_moeplan(arguments + selection + " --format csv").out);
    REQUIRE(rows.size() == points.size() + 1);
    for (std::size_t i = 0; i < points.size(); ++i) CHECK(rows[i + 1][2] == points[i]["bytes"].dump());
  }
  const Output front = run_moeplan(arguments + "--pareto bytes,launches");
  CHECK(contains(front.out, "the front of least bytes and launches alone"));
  CHECK(contains(front.out, "24 points compared"));
}

TEST_CASE("the same bytes leave one thread and many") {
  const std::string arguments =
      "sweep -c configs/glm52.json --axis capacity=1..2500:+1 --axis tp=3,4 --format csv --threads ";
  const Output one = run_moeplan(arguments + "1"), two = run_moeplan(arguments + "2"),
               five = run_moeplan(arguments + "5");
  CHECK(one.exit_code == 0);
  CHECK(one.out.size() > 150'000);
  CHECK(one.out == two.out);
  CHECK(one.out == five.out);
}

TEST_CASE("wrong axes, arenas and columns exit 2 with what would work") {
  const std::pair<const char*, const char*> cases[] = {
      {"--axis capcity=1", "did you mean \"capacity\"?"},
      {"--axis capacity=4..2:+1", "has no values"},
      {"--axis capacity=", "empty value"},
      {"--axis /deployment/max_num_batch_tokens=1", "did you mean \"max_num_batched_tokens\"?"},
      {"--axis tp=1 --arena prefil", "did you mean \"prefill\"?"},
      {"--axis tp=1 --columns byts", "did you mean \"bytes\"?"},
      {"--axis tp=1 --sort byts", "did you mean \"bytes\"?"},
      {"--axis tp=1 --pareto rows", "has no better and worse"},
      {"--axis tp=1 --top 0", "--top"},
      {"--axis tp=1 --format yaml", "--format"},
      {"--axis tp=1 --plot png", "--plot"},
      {"", "--axis is required"}};
  for (const auto& [arguments, help] : cases) {
    const Output run = run_moeplan(concat("sweep -c configs/glm52.json ", arguments));
    INFO(arguments << "\n" << run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK(run.err.starts_with("error[usage]: "));
    CHECK(contains(run.err, help));
  }
}

TEST_CASE("sweeps and tables that are too large are refused with exit code 5") {
  const std::pair<const char*, const char*> cases[] = {
      {"--axis capacity=1..10000001:+1 --format csv", "10,000,001 points pass the limit of 10,000,000"},
      {"--axis tp=1..8:+1 --max-points 7", "8 points pass the limit of 7"},
      {"--axis /x-a=0..9223372036854775806:+1 --axis /x-b=1,2", "more than 4,611,686,018,427,387,903 points"},
      {"--axis capacity=1..100001:+1", "write -o csv, tsv or jsonl alone"},
      {"--axis capacity=1..100001:+1 -o csv -o json=/dev/null", "write -o csv, tsv or jsonl alone"},
      {"--axis capacity=1..100001:+1 --sort bytes --format csv", "--top"}};
  for (const auto& [arguments, message] : cases) {
    const Output run = run_moeplan(concat("sweep -c configs/glm52.json ", arguments));
    INFO(arguments << "\n" << run.err);
    CHECK(run.exit_code == 5);
    CHECK(run.out.empty());
    CHECK(run.err.starts_with("error[limit]: "));
    CHECK(contains(run.err, message));
  }
  CHECK(run_moeplan("sweep -c configs/glm52.json --axis tp=1..8:+1 --max-points 8").exit_code == 0);
  // More points than a table keeps are fine where it shows few of them.
  const Output top =
      run_moeplan("sweep -q -c - --axis capacity=1..100001:+1 --top 1",
                  R"({"schema_version": 1, "contract": "b12x-36bce2c", "device": {"sm_count": 188}, "plans": [
          {"kind": "moe_tp", "weights": {"quant_mode": "w4a16", "source_format": "modelopt_nvfp4",
           "activation": "silu", "io_dtype": "bfloat16", "experts": 8, "hidden_size": 128,
           "intermediate_size": 128}, "capacity": {"max_tokens": 1, "top_k": 1}}]})");
  CHECK(top.exit_code == 0);
  CHECK(contains(top.out, "at capacity 1 · 100,001 points"));
}

TEST_CASE("a config that cannot be read exits 3, and several are swept in order") {
  CHECK(run_moeplan("sweep -c - --axis tp=1", "{").exit_code == 3);
  CHECK(run_moeplan("sweep -c - --axis tp=1 --format csv", "{").exit_code == 3);
  const auto rows = csv_rows(
      run_moeplan("sweep -c configs/glm52.json -c configs/glm52-e160.json --axis tp=4 --format csv").out);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0][0] == "config");
  CHECK(rows[1][0] == "configs/glm52.json");
  CHECK(rows[2][0] == "configs/glm52-e160.json");
}

TEST_CASE("an interrupted sweep leaves whole rows, the first of the full answer, and exits 130 or 143") {
  const TemporaryFolder folder;
  const std::string arguments = "sweep -c configs/glm52.json --axis capacity=1..3000000:+1 --format csv ";
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}}) {
    const std::string out = concat(folder.path(), "/rows", signal);
    const pid_t child = fork();
    if (child == 0) {
      const std::string command = "cd '" MOEPLAN_SOURCE_DIR "' && exec '" MOEPLAN_BINARY "' " + arguments +
                                  " >'" + out + "' 2>/dev/null";
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    // Interrupted once there are rows.
    for (int i = 0; i < 1000 && read_file(out).size() < 10'000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
    const std::string text = read_file(out);
    REQUIRE(text.ends_with("\r\n"));
    const auto rows = static_cast<i64>(std::ranges::count(text, '\n')) - 1;
    CHECK(rows > 0);
    CHECK(rows < 3'000'000);
    const Output same =
        run_moeplan(concat("sweep -c configs/glm52.json --axis capacity=1..", rows, ":+1 --format csv"));
    CHECK(same.out == text);
  }
}

TEST_CASE("a large sweep streams in little memory") {
  const pid_t child = fork();
  if (child == 0) {
    (void)!freopen("/dev/null", "w", stdout);
    execl(MOEPLAN_BINARY, MOEPLAN_BINARY, "sweep", "-c", MOEPLAN_SOURCE_DIR "/configs/glm52.json", "--axis",
          "capacity=1..8000:+1", "--format", "csv", nullptr);
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  CHECK(status == 0);
#if !defined(__SANITIZE_ADDRESS__)
  CHECK(usage.ru_maxrss <= 64 * 1024);
#endif
}

TEST_CASE("rows and reports go to several places at once, each as it is alone") {
  const TemporaryFolder folder;
  const std::string arguments = std::string(kCapacities) + "--arena prefill ";
  const char* files[] = {"csv", "tsv", "jsonl", "html", "svg", "json"};
  std::string outputs;
  for (const char* format : files) outputs += concat("-o ", format, "=", folder.path(), "/", format, " ");
  const Output all = run_moeplan(arguments + outputs + "-o table");
  CHECK(all.exit_code == 0);
  CHECK(all.out == run_moeplan(arguments).out);
  for (const char* format : files) {
    INFO(format);
    const std::string alone = run_moeplan(concat(arguments, "-o ", format)).out;
    CHECK(!alone.empty());
    CHECK(read_file(concat(folder.path(), "/", format)) == alone);
  }
  // A file is replaced by =, grows by +=.
  const std::string one = concat(arguments, "-o csv=", folder.path(), "/csv ");
  const std::string more = concat(arguments, "-o csv+=", folder.path(), "/csv ");
  const std::string csv = read_file(folder.path() + "/csv");
  CHECK(run_moeplan(one).out.empty());
  CHECK(read_file(folder.path() + "/csv") == csv);
  CHECK(run_moeplan(more).exit_code == 0);
  CHECK(read_file(folder.path() + "/csv") == csv + csv);
  // Without an answer no old rows are left.
  CHECK(run_moeplan("sweep -c - --axis tp=1 -o csv=" + folder.path() + "/csv", "{").exit_code == 3);
  CHECK(read_file(folder.path() + "/csv").empty());
  const Output nowhere = run_moeplan(arguments + "-o csv=/nowhere/rows");
  CHECK(nowhere.exit_code == 3);
  CHECK(contains(nowhere.err, "cannot write /nowhere/rows"));
}

TEST_CASE("cells of streamed rows are no formulas and steer no terminal") {
  const std::string arguments =
      "sweep -c configs/glm52.json --axis '/model/name==a\x1b' --columns launches -o ";
  CHECK(run_moeplan(arguments + "csv").out == "/model/name,launches,error\r\n'=a\\x1b,1,\r\n");
  CHECK(run_moeplan(arguments + "tsv").out == "/model/name\tlaunches\terror\n'=a\\x1b\t1\t\n");
}

TEST_CASE("sound is what audit says of every point") {
  const std::string config = R"({"schema_version": 1, "contract": "sparkinfer-c2f135c",
    "device": {"sm_count": 188}, "plans": [{"id": "a", "kind": "moe_tp",
      "weights": {"quant_mode": "w4a16", "source_format": "modelopt_nvfp4", "activation": "silu",
                  "io_dtype": "bfloat16", "experts": 128, "hidden_size": 2048, "intermediate_size": 96},
      "capacity": {"max_tokens": 512, "top_k": 8}}]})";
  i64 sound = 0, unsound = 0;
  for (const char* contract : kContractIds) {
    const auto rows = csv_rows(
        run_moeplan(concat("sweep -c - --axis contract=", contract, " --axis capacity=1,16,100,512,4000 ",
                           "--axis block=unpinned,8,64 --columns sound -o csv"),
                    config)
            .out);
    REQUIRE(rows.size() == 16);
    for (std::size_t i = 1; i < rows.size(); ++i) {
      std::string set =
          concat(" --contract ", rows[i][0], " --set /plans/0/capacity/max_tokens=", rows[i][1]);
      if (rows[i][2] != "unpinned") set += concat(" --set /plans/0/capacity/block_size_m=", rows[i][2]);
      const Output audit = run_moeplan("audit -q -c -" + set, config);
      INFO(set << "\n" << audit.out << audit.err);
      CHECK(rows[i][3] == (audit.exit_code == 0 ? "true" : audit.exit_code == 1 ? "false" : "?"));
      ++(audit.exit_code == 0 ? sound : unsound);
    }
  }
  CHECK(sound > 0);
  CHECK(unsound > 0);
  // An arena alone, and what no audit models.
  CHECK(csv_rows(
            run_moeplan("sweep -c configs/glm52.json --axis tp=4 --arena 'indexer decode' --columns sound -o "
                        "csv")
                .out)[1][1]
            .empty());
}

TEST_CASE("cold keys are what launches counts of every point") {
  const auto rows = csv_rows(run_moeplan("sweep -c configs/glm52.json --axis capacity=64,512,1000,3072 "
                                         "--axis sms=80,188 --columns cold_keys "
                                         "-o csv")
                                 .out);
  REQUIRE(rows.size() == 9);
  std::set<std::string> counts;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Json report = Json::parse(
        run_moeplan(
            concat("launches -o json -c configs/glm52.json --set /deployment/env/VLLM_EXL3_PREFILL_CAPACITY=",
                   rows[i][0], " --set /device/sm_count=", rows[i][1]))
            .out);
    CHECK(rows[i][2] == report["totals"]["cold_keys"].dump());
    counts.insert(rows[i][2]);
  }
  CHECK(counts.size() > 1);
  const Json decode = Json::parse(run_moeplan("launches -o json -c configs/glm52.json --plan decode").out);
  const auto alone = csv_rows(
      run_moeplan("sweep -c configs/glm52.json --axis tp=4 --arena decode --columns cold_keys -o csv").out);
  CHECK(alone[1][1] == decode["totals"]["cold_keys"].dump());
  // Without the device's shared memory nobody knows.
  Json unstated = glm52_json();
  unstated["device"].erase("shared_memory_per_block_optin");
  const Json report =
      Json::parse(run_moeplan("sweep -c - --axis tp=4 --columns cold_keys -o json", unstated.dump()).out);
  CHECK(report["points"][0]["cold_keys"].is_null());
  CHECK(
      contains(report["notes"].dump(), "cold keys are not known: shared_memory_per_block_optin is missing"));
}

TEST_CASE("the numbers of page and picture are those of the JSON") {
  const std::string arguments = std::string(kCapacities) + "--arena prefill";
  const Json points = sweep_json(arguments)["points"];
  const std::string page = run_moeplan(arguments + " --format html").out;
  const std::string svg = run_moeplan(arguments + " --format svg").out;

  // The page's table: the cells of each row, read back.
  const std::string table = page.substr(page.find("<caption>points</caption>"));
  static const std::regex kRow("<tr role=\"row\"><th scope=\"row\".*?</tr>");
  static const std::regex kCell("<t[hd][^>]*>([^<]*)</t[hd]>");
  std::sregex_iterator row(table.begin(), table.end(), kRow);
  static const std::regex kText(">([0-9,]+)</text>\\s*<text[^>]*>([0-9,]+) B · ");
  std::sregex_iterator text(svg.begin(), svg.end(), kText);
  for (const Json& point : points) {
    REQUIRE(row != std::sregex_iterator());
    const std::string cells = row->str();
    std::vector<std::string> values;
    for (std::sregex_iterator cell(cells.begin(), cells.end(), kCell), end; cell != end; ++cell)
      values.push_back(digits_of((*cell)[1]));
    REQUIRE(values.size() >= 7);
    CHECK(values[0] == point["capacity"].dump());
    CHECK(values[1] == point["bytes"].dump());
    CHECK(values[4] == (point["kv_tokens"].get<i64>() > 0 ? "+" : "") + point["kv_tokens"].dump());
    CHECK(values[5] == point["launches"].dump());
    ++row;
    REQUIRE(text != std::sregex_iterator());
    CHECK(digits_of((*text)[1]) == point["capacity"].dump());
    CHECK(digits_of((*text)[2]) == point["bytes"].dump());
    ++text;
  }
  // The parts of each point add up to its bytes.
  static const std::regex kPart("<title>([0-9,]+), [^:<]+: ([0-9,]+) B</title>");
  std::map<std::string, i64> sums;
  for (std::sregex_iterator part(svg.begin(), svg.end(), kPart), end; part != end; ++part)
    sums[digits_of((*part)[1])] += std::stoll(digits_of((*part)[2]));
  for (const Json& point : points) CHECK(sums[point["capacity"].dump()] == point["bytes"]);
}

TEST_CASE("the help lists every axis and every column") {
  const Output run = run_moeplan("sweep --help");
  CHECK(run.exit_code == 0);
  for (const char* line : {"  capacity      VLLM_EXL3_PREFILL_CAPACITY", "  kv_tokens     what that change",
                           "  contract      layout contract"})
    CHECK(contains(run.out, line));
}

TEST_CASE("progress is for terminals: nothing of it reaches a pipe") {
  const Output run =
      run_moeplan("sweep -c configs/glm52.json --axis capacity=1..4000:+1 --columns bytes --format csv");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
}
