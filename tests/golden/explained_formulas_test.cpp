// Every printed formula, evaluated by an evaluator of the tests' own, gives the bytes that are planned.
#include <set>

#include "cli/commands/explain_number.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/kv_cache.hpp"
#include "planner/indexer/symbols.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/symbols.hpp"
#include "tests/catch.hpp"
#include "tests/deployment_support.hpp"
#include "tests/formula_evaluator.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

const ConfigOverrides kNoOverrides;

PlannedConfig planned_of(const Json& config) {
  return plan_config(parse_config("test", config.dump(), kNoOverrides));
}

const Table* find_table(const Report& report, std::string_view key) {
  for (const Table& table : report.tables) {
    if (table.key == key) return &table;
  }
  return nullptr;
}

i64 number(const Cell& cell) { return std::get<i64>(cell); }
std::string text(const Cell& cell) { return std::get<std::string>(cell); }

// Whether each row of an explanation follows from the rows above it, judged from what is printed alone, and
// the last rows' bytes from their elements. `numbers` collects the bytes by name.
bool holds(const Report& report, std::map<std::string, i64>& numbers, std::string_view inputs = "inputs",
           std::string_view formulas = "formulas") {
  FormulaEvaluator::Values values;
  if (const Table* table = find_table(report, inputs)) {
    for (const Row& row : table->rows) values[text(row.cells[0])] = number(row.cells[1]);
  }
  const Table* table = find_table(report, formulas);
  if (!table) return false;
  for (const Row& row : table->rows) {
    const std::string name = text(row.cells[0]), substituted = text(row.cells[2]);
    const i64 value = number(row.cells[table->column("value")]);
    if (FormulaEvaluator::evaluate(text(row.cells[1]), values) != value) return false;
    const auto bytes_cell = row.cells[table->column("bytes")];
    if (std::holds_alternative<std::monostate>(bytes_cell)) {
      if (FormulaEvaluator::evaluate_printed(substituted) != value) return false;
      values[name] = value;
      continue;
    }
    const i64 bytes = number(bytes_cell), unit = number(row.cells[table->column("unit_bytes")]);
    if (value * unit != bytes) return false;
    // "… = 12 elements x 4 B = 48 B"
    const auto mark = substituted.find(" elements x ");
    if (mark != std::string::npos) {
      if (FormulaEvaluator::evaluate_printed(substituted.substr(0, mark)) != value) return false;
      if (!substituted.ends_with(" = " + grouped(bytes) + " B")) return false;
    }
    numbers[name] = bytes;
  }
  return true;
}

// Explains an arena as a whole and each tensor alone. Returns how many tensors were judged.
template <class Layout>
int judge(const PlannedConfig& planned, const PlannedRequest& plan, const Layout& layout) {
  std::map<std::string, i64> numbers;
  const auto whole = explain_number(planned, plan.id());
  REQUIRE(whole);
  if (layout.arena.tensors.empty()) return 0;
  CHECK(holds(*whole, numbers));
  int judged = 0;
  for (const TensorSpec& tensor : layout.arena.tensors) {
    INFO(plan.id() << "/" << tensor.name << " " << tensor.formula);
    CHECK(numbers[std::string(tensor.name)] == tensor.bytes);
    std::map<std::string, i64> alone;
    const auto one = explain_number(planned, plan.id() + "/" + std::string(tensor.name));
    REQUIRE(one);
    CHECK(holds(*one, alone));
    CHECK(alone == std::map<std::string, i64>{{std::string(tensor.name), tensor.bytes}});
    ++judged;
  }
  if (layout.arena.tensors[0].offset != kOutsideArena) {
    std::map<std::string, i64> sum;
    CHECK(holds(*whole, sum, "sum_inputs", "sum"));
    CHECK(sum[plan.id()] == layout.total_bytes);
  }
  return judged;
}

int judge_all(const Json& config) {
  const PlannedConfig planned = planned_of(config);
  REQUIRE(planned.ok());
  int judged = 0;
  for (const PlannedRequest& plan : planned.plans)
    judged += plan.moe() ? judge(planned, plan, *plan.moe()) : judge(planned, plan, *plan.indexer());
  return judged;
}

// The tensors of a plan against its symbols alone, without a report around them.
template <class Layout>
bool symbols_hold(const Symbols& symbols, const Layout& layout) {
  FormulaEvaluator::Values values;
  for (const Symbol& symbol : symbols) {
    if (!symbol.expression.empty() && FormulaEvaluator::evaluate(symbol.expression, values) != symbol.value)
      return false;
    values[symbol.name] = symbol.value;
  }
  for (const TensorSpec& tensor : layout.arena.tensors) {
    const std::string formula(element_formula(symbols, tensor.name, tensor.formula));
    if (FormulaEvaluator::evaluate(formula, values) != tensor.shape.elements()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the formulas of every recorded plan evaluate to its bytes") {
  int judged = 0;
  for (const char* path : {"tests/golden/moe_w4a16.jsonl", "tests/golden/moe_micro_dynamic.jsonl",
                           "tests/golden/indexer.jsonl"}) {
    for (const Json& recorded : read_lines(path)) {
      if (!recorded["response"].contains("layout")) continue;
      INFO(recorded["request"].dump());
      judged += judge_all({{"schema_version", 1},
                           {"contract", "sparkinfer-de04125"},
                           {"plans", Json::array({recorded["request"]})}});
    }
  }
  CHECK(judged > 3'000);
}

TEST_CASE("the formulas of every shipped deployment evaluate to its bytes") {
  for (const char* path : {"configs/glm52.json", "configs/glm52-e160.json", "configs/glm52-gate8192.json"}) {
    INFO(path);
    CHECK(judge_all(Json::parse(read_source(path))) > 20);
  }
}

TEST_CASE("the formulas of a grid of MoE plans evaluate to their elements") {
  int plans = 0;
  for (const char* contract : kContractIds) {
    for (i64 experts : {1, 8, 160, 256}) {
      for (i64 top_k : {1, 2, 8}) {
        for (i64 tokens : {1, 3, 8, 9, 64, 100, 3072}) {
          for (i64 block : {0, 8, 16, 32, 48, 64}) {
            MoeRequest requests[] = {
                packed_request(contract, experts, 1536, 384, top_k, tokens, 170),
                native_request(contract, experts, 2048, 256, top_k, tokens, 132),
                trellis_request(contract, experts, 6144, 512, top_k, tokens, 188),
                expert_parallel_request(contract, 1, experts, 1024, 256, top_k, tokens, 108)};
            requests[0].weights.activation = Activation::relu2;
            requests[2].capacity.route_experts = experts + 3;
            for (MoeRequest& request : requests) {
              if (block > 0 && request.kind == MoeKind::tensor_parallel)
                request.capacity.block_size_m = block;
              const auto layout = plan_moe(request);
              if (!layout) continue;
              ++plans;
              INFO(contract << " E " << experts << " topk " << top_k << " tokens " << tokens << " block "
                            << block);
              const Symbols symbols = moe_symbols(request, *layout);
              CHECK(symbols_hold(symbols, *layout));
              if (const Symbol* r = find_symbol(symbols, "R")) CHECK(r->value == layout->route_experts);
            }
          }
        }
      }
    }
  }
  CHECK(plans > 5'000);
}

TEST_CASE("the formulas of a grid of lean plans evaluate to their elements") {
  int plans = 0;
  for (i64 experts : {1, 160, 256}) {
    for (i64 top_k : {1, 3, 8}) {
      for (i64 hidden : {128, 6144}) {
        for (i64 intermediate : {128, 512, 2048}) {
          for (i64 tokens : {1, 9, 64, 65, 3072, 100'000}) {
            MoeRequest request =
                trellis_request(kLeanContractId, experts, hidden, intermediate, top_k, tokens, 188);
            for (i64 route_experts : {i64{0}, experts + 3}) {
              request.capacity.route_experts = route_experts;
              const auto layout = plan_moe(request);
              REQUIRE(layout);
              INFO("E " << experts << " topk " << top_k << " k " << hidden << " n " << intermediate
                        << " tokens " << tokens);
              CHECK(symbols_hold(moe_symbols(request, *layout), *layout));
              ++plans;
            }
          }
        }
      }
    }
  }
  CHECK(plans == 648);
}

TEST_CASE("the formulas of a deployment under the lean contract evaluate to its bytes") {
  for (const char* path : {"configs/glm52.json", "configs/glm52-e160.json", "configs/glm52-gate8192.json"}) {
    INFO(path);
    Json config = Json::parse(read_source(path));
    config["contract"] = kLeanContractId;
    CHECK(judge_all(config) > 20);
  }
}

TEST_CASE("the formulas of a grid of micro and dynamic plans evaluate to their elements") {
  int micro = 0, dynamic = 0;
  for (const char* contract : kContractIds) {
    for (auto [mode, source] : {std::pair(QuantMode::nvfp4, SourceFormat::modelopt_nvfp4),
                                std::pair(QuantMode::w4a8_nvfp4, SourceFormat::modelopt_nvfp4),
                                std::pair(QuantMode::w4a8_mx, SourceFormat::fp4_e8m0_k32),
                                std::pair(QuantMode::w6a8_mx, SourceFormat::mxfp6_e2m3)}) {
      for (Activation activation : {Activation::silu, Activation::situ, Activation::relu2}) {
        for (i64 tokens : {1, 2, 4, 5, 8, 9, 63, 64, 4096}) {
          for (i64 intermediate : {128, 1024, 1056}) {
            for (bool deterministic : {false, true}) {
              MoeRequest request = native_request(contract, 256, 6144, intermediate, 8, tokens, 148);
              request.weights.quant_mode = mode;
              request.weights.source_format = source;
              request.weights.activation = activation;
              request.capacity.deterministic_output = deterministic;
              const auto layout = plan_moe(request);
              if (!layout) continue;
              ++(layout->implementation == Implementation::micro ? micro : dynamic);
              INFO(contract << " mode " << static_cast<int>(mode) << " tokens " << tokens << " n "
                            << intermediate);
              CHECK(symbols_hold(moe_symbols(request, *layout), *layout));
            }
          }
        }
      }
    }
  }
  CHECK(micro > 100);
  CHECK(dynamic > 400);
}

TEST_CASE("a formula that says something else than the plan is seen") {
  const MoeRequest request = trellis_request("sparkinfer-de04125", 256, 6144, 512, 8, 3072, 188);
  auto layout = plan_moe(request);
  REQUIRE(layout);
  const Symbols symbols = moe_symbols(request, *layout);
  REQUIRE(symbols_hold(symbols, *layout));
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i].expression.empty()) continue;
    INFO(symbols[i].name);
    Symbols wrong = symbols;
    wrong[i].expression += "+1";
    CHECK_FALSE(symbols_hold(wrong, *layout));
  }
  for (std::size_t i = 0; i < layout->arena.tensors.size(); ++i) {
    auto wrong = *layout;
    if (find_symbol(symbols, wrong.arena.tensors[i].name)) continue;  // that one was judged above
    wrong.arena.tensors[i].formula = "N*k+1";
    CHECK_FALSE(symbols_hold(symbols, wrong));
  }
}

TEST_CASE("what decided a scratch formula is the bound of its tensor") {
  int capped = 0, below = 0;
  for (i64 tokens : {1, 4, 32, 64, 3072}) {
    for (i64 block : {0, 8, 16, 64}) {
      for (const char* contract : kContractIds) {
        MoeRequest request = packed_request(contract, 256, 6144, 512, 8, tokens, 188);
        if (block > 0) request.capacity.block_size_m = block;
        const auto layout = plan_moe(request);
        REQUIRE(layout);
        const Symbols symbols = moe_symbols(request, *layout);
        for (const TensorSpec& tensor : layout->arena.tensors) {
          if (tensor.bound == Bound::none) continue;
          // Through the block size that won, to what won there.
          std::string decided = find_symbol(symbols, tensor.name)->expression;
          while (const Symbol* symbol = find_symbol(symbols, decided)) decided = symbol->expression;
          decided = evaluate(decided, symbols).decided_by;
          while (const Symbol* symbol = find_symbol(symbols, decided))
            decided = evaluate(symbol->expression, symbols).decided_by;
          INFO(tensor.name << " " << tokens << " block " << block << ": " << decided);
          CHECK(decided.starts_with("sms") == (tensor.bound == Bound::sm_cap));
          ++(tensor.bound == Bound::sm_cap ? capped : below);
        }
      }
    }
  }
  CHECK(capped > 20);
  CHECK(below > 20);
}

TEST_CASE("the formulas of buffers outside the arenas evaluate to their bytes") {
  for (const Json& config : {glm52_json(), glm52_mixed_json()}) {
    const PlannedConfig planned = planned_of(config);
    REQUIRE(planned.ok());
    int judged = 0;
    const auto runtimes = exl3_runtimes(planned.config->deployment);
    REQUIRE(runtimes);
    for (const Exl3Runtime& runtime : *runtimes) {
      for (const RuntimePart& part : runtime.parts) {
        if (part.buffers.empty()) continue;
        std::map<std::string, i64> numbers;
        const auto report = explain_number(planned, part.name);
        REQUIRE(report);
        CHECK(holds(*report, numbers));
        for (const Buffer& buffer : part.buffers) {
          CHECK(numbers[std::string(buffer.name)] == buffer.bytes);
          ++judged;
        }
      }
    }
    CHECK(judged >= 12);
  }
}

TEST_CASE("the arena that tiers of mixed widths share in serial form is explained like any other") {
  Json config = glm52_mixed_json();
  config["quant"]["mixed_form"] = "serial";
  const PlannedConfig planned = planned_of(config);
  REQUIRE(planned.ok());
  std::map<std::string, i64> numbers, alone, total;
  const auto arena = explain_number(planned, "mixed prefill arena");
  REQUIRE(arena);
  CHECK(holds(*arena, numbers));
  CHECK(numbers.size() == 17);  // the core and, unlike elsewhere, the router's workspace
  const auto tensor = explain_number(planned, "mixed-prefill-arena/router_logits");
  REQUIRE(tensor);
  CHECK(holds(*tensor, alone));
  CHECK(alone["router_logits"] == numbers["router_logits"]);
  const auto sum = explain_number(planned, "total");
  REQUIRE(sum);
  CHECK(holds(*sum, total));
  i64 parts = 0;
  for (const RuntimePart& part : planned.mixed_parts) parts += part.bytes;
  CHECK(total["total"] == parts);
  for (const std::string& name : explained_names(planned)) CHECK(explain_number(planned, name));
}

TEST_CASE("the formulas of the KV cache and of the total evaluate to what capacity and size say") {
  std::map<std::string, i64> kv, total;
  const PlannedConfig planned = planned_of(glm52_json());
  const auto cache = kv_cache_of(planned.config->deployment);
  const auto report = explain_number(planned, "kv");
  REQUIRE(report);
  CHECK(holds(*report, kv));
  CHECK(kv["kv block"] == cache->page_bytes());
  const auto sum = explain_number(planned, "total");
  REQUIRE(sum);
  CHECK(holds(*sum, total));
  CHECK(total["total"] == 1'150'998'080);
}

TEST_CASE("the KV formula of every record type is the cache's own") {
  for (const char* dtype : {"bfloat16", "fp8", "fp8_ds_mla", "nvfp4_ds_mla"}) {
    for (bool sparse : {true, false}) {
      for (bool latent : {true, false}) {
        Json config = glm52_json();
        config["deployment"].erase("kv_record_bytes");
        config["deployment"]["kv_cache_dtype"] = dtype;
        if (!latent) config["model"].erase("kv_lora_rank");
        if (!sparse)
          for (const char* field : {"index_topk", "index_n_heads", "index_head_dim", "index_full_layers"})
            config["model"].erase(field);
        const PlannedConfig planned = planned_of(config);
        REQUIRE(planned.ok());
        const auto cache = kv_cache_of(planned.config->deployment);
        const auto report = explain_number(planned, "kv");
        INFO(dtype << " sparse " << sparse << " latent " << latent);
        CHECK(static_cast<bool>(report) == static_cast<bool>(cache));
        if (!report) continue;
        std::map<std::string, i64> numbers;
        CHECK(holds(*report, numbers));
        CHECK(numbers["kv block"] == cache->page_bytes());
      }
    }
  }
}

TEST_CASE("every source an explanation names is in the documentation") {
  const std::string contracts_text = read_source("docs/contracts.md");
  std::set<std::string> sections;
  for (const char* path : {"tests/golden/moe_w4a16.jsonl", "tests/golden/moe_micro_dynamic.jsonl"}) {
    for (const Json& recorded : read_lines(path)) {
      if (!recorded["response"].contains("layout")) continue;
      const PlannedConfig planned = planned_of({{"schema_version", 1},
                                                {"contract", "sparkinfer-de04125"},
                                                {"plans", Json::array({recorded["request"]})}});
      const PlannedRequest& plan = planned.plans[0];
      for (const TensorSpec& tensor : plan.moe()->arena.tensors) {
        const FormulaSource source = moe_formula_source(plan.origin.request.moe, *plan.moe(), tensor);
        const std::string section(source.section), original(source.original);
        const std::string file = original.substr(0, original.find(','));
        const std::string function = original.substr(original.find(' ') + 1);
        INFO(section << ": " << original);
        CHECK(contracts_text.find("\n## " + section.substr(section.rfind(' ') + 1) + ". ") !=
              std::string::npos);
        CHECK(contracts_text.find("`" + file + "`") != std::string::npos);
        CHECK(contracts_text.find("`" + function + "`") != std::string::npos);
        sections.insert(section);
      }
    }
  }
  CHECK(sections.size() == 5);  // 3, 5, 6, 7 and 9
}

TEST_CASE("an arena's explanation names the block every launch takes, and which of them its tokens reach") {
  for (i64 experts : {1, 8, 160, 256}) {
    for (i64 top_k : {1, 8, 22}) {
      for (i64 tokens : {1, 64, 300}) {
        Json request = read_lines("tests/golden/moe_w4a16.jsonl")[0]["request"];
        request["id"] = "a";
        request["weights"]["experts"] = experts;
        request["capacity"]["top_k"] = top_k;
        request["capacity"]["max_tokens"] = tokens;
        const PlannedConfig planned = planned_of(
            {{"schema_version", 1}, {"contract", "sparkinfer-de04125"}, {"plans", Json::array({request})}});
        REQUIRE(planned.ok());
        const auto report = explain_number(planned, "a");
        REQUIRE(report);
        const Table* blocks = find_table(*report, "blocks");
        REQUIRE(blocks);
        const i64 listed = planned.plans[0].moe()->bound_tokens;
        for (const Row& row : blocks->rows) {
          const i64 block = number(row.cells[0]);
          bool reached = false;
          for (i64 m = 1; m <= 2'000; ++m) {
            const bool taken = select_block_size(m, top_k, experts) == block;
            const bool is_there = std::holds_alternative<i64>(row.cells[1]) && m >= number(row.cells[1]) &&
                                  (!std::holds_alternative<i64>(row.cells[2]) || m <= number(row.cells[2]));
            if (taken != is_there) FAIL(block << " at " << m << " of " << experts << " by " << top_k);
            reached = reached || (taken && m <= listed);
          }
          CHECK(std::get<bool>(row.cells[3]) == reached);
        }
      }
    }
  }
}

TEST_CASE("formulas evaluate within 63 bits at the limits of every input") {
  MoeRequest request = packed_request("sparkinfer-c2f135c", kMaxExperts, kMaxDimension, kMaxDimension,
                                      kMaxTopK, kMaxTokens, kMaxMultiprocessors);
  for (const MoeRequest& extreme :
       {request,
        native_request("b12x-36bce2c", kMaxExperts, kMaxDimension, kMaxDimension, kMaxTopK, kMaxTokens,
                       kMaxMultiprocessors),
        trellis_request("b12x-36bce2c", kMaxExperts, kMaxDimension, kMaxDimension, kMaxTopK, kMaxTokens,
                        kMaxMultiprocessors),
        expert_parallel_request("sparkinfer-de04125", kMaxExperts, kMaxExperts, kMaxDimension, kMaxDimension,
                                kMaxTopK, kMaxTokens, kMaxMultiprocessors)}) {
    const auto layout = plan_moe(extreme);
    REQUIRE(layout);
    CHECK(symbols_hold(moe_symbols(extreme, *layout), *layout));
  }
  for (QuantMode mode : {QuantMode::nvfp4, QuantMode::w4a8_nvfp4}) {
    MoeRequest extreme = native_request("b12x-36bce2c", kMaxExperts, kMaxDimension, kMaxDimension, kMaxTopK,
                                        kMaxTokens, kMaxMultiprocessors);
    extreme.weights.quant_mode = mode;
    extreme.capacity.deterministic_output = true;
    const auto layout = plan_moe(extreme);
    REQUIRE(layout);
    CHECK(symbols_hold(moe_symbols(extreme, *layout), *layout));
  }
}
