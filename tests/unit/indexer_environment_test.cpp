// The grammar of every indexer variable, as the engine's own readers take it.
#include "planner/indexer/environment.hpp"

#include "planner/core/limits.hpp"
#include "tests/catch.hpp"

using namespace moeplan;

namespace {

IndexerEnvironment with(const std::string& name, const std::string& text) {
  return IndexerEnvironment("SPARKINFER_", {{"SPARKINFER_" + name, text}});
}

const IndexerEnvironment kUnset("SPARKINFER_", {});

}  // namespace

TEST_CASE("unset variables leave every default") {
  CHECK(!kUnset.supertile_k()->has_value());
  CHECK(kUnset.fused_allowed());
  CHECK(!kUnset.prefill_scorer()->has_value());
  CHECK(*kUnset.prefill_block_k() == BlockKChoice::automatic);
  CHECK(*kUnset.fold_mode() == FoldMode::automatic);
  CHECK(*kUnset.fold_budget_bytes() == i64{256} << 20);
  CHECK(kUnset.stream_scorer());
}

TEST_CASE("a variable with another contract's prefix is ignored") {
  const IndexerEnvironment env("B12X_", {{"SPARKINFER_FUSED_INDEXER", "0"},
                                         {"FUSED_INDEXER", "0"},
                                         {"SPARKINFER_INDEXER_TWO_LEVEL_FOLD", "maybe"}});
  CHECK(env.fused_allowed());
  CHECK(env.fold_mode());
  CHECK(!IndexerEnvironment("B12X_", {{"B12X_FUSED_INDEXER", "0"}}).fused_allowed());
}

TEST_CASE("the supertile is a Python integer, and its error names variable and text") {
  const char* const name = "PAGED_INDEX_SUPERTILE_K";
  for (const auto& [text, value] : {std::pair<const char*, i64>{"4096", 4096},
                                    {" 8_192 ", 8192},
                                    {"\t+512\n", 512},
                                    {"-1", -1},
                                    {"0", 0},
                                    {"007", 7}}) {
    INFO(text);
    const auto parsed = with(name, text).supertile_k();
    REQUIRE(parsed);
    CHECK(**parsed == value);
  }
  for (const char* text : {"", " ", "1e4", "0x10", "4096.0", "_1", "1_", "1__0", "+ 1", "--1", "auto"}) {
    INFO(text);
    const auto parsed = with(name, text).supertile_k();
    REQUIRE(!parsed);
    CHECK(parsed.error().pointer == "/env/SPARKINFER_PAGED_INDEX_SUPERTILE_K");
    CHECK(parsed.error().message ==
          std::string("SPARKINFER_PAGED_INDEX_SUPERTILE_K must be an integer, got '") + text + "'");
  }
}

TEST_CASE("only exactly 0 turns the fused route off") {
  CHECK(!with("FUSED_INDEXER", "0").fused_allowed());
  for (const char* text : {"false", "off", " 0", "0 ", "", "00", "1"}) {
    INFO(text);
    CHECK(with("FUSED_INDEXER", text).fused_allowed());
  }
}

TEST_CASE("the prefill threshold is a switch: its sign alone counts") {
  for (const char* text : {"1", "100000", " +1 "})
    CHECK(**with("NSA_CONTIGUOUS_PREFILL_THRESHOLD", text).prefill_scorer());
  for (const char* text : {"0", "-5"})
    CHECK(!**with("NSA_CONTIGUOUS_PREFILL_THRESHOLD", text).prefill_scorer());
  for (const char* text : {"", "on", "1.5"})
    CHECK(!with("NSA_CONTIGUOUS_PREFILL_THRESHOLD", text).prefill_scorer());
}

TEST_CASE("the prefill key block is auto, 256 or 512 in any case with space around") {
  const char* const name = "NSA_CONTIGUOUS_PREFILL_BLOCK_K";
  for (const char* text : {"", "  ", "auto", " AUTO "})
    CHECK(*with(name, text).prefill_block_k() == BlockKChoice::automatic);
  CHECK(*with(name, " 256\n").prefill_block_k() == BlockKChoice::block_256);
  CHECK(*with(name, "512").prefill_block_k() == BlockKChoice::block_512);
  for (const char* text : {"128", "+256", "5_12", "on"}) CHECK(!with(name, text).prefill_block_k());
}

TEST_CASE("the fold mode takes three words of each kind, and an empty text is an error") {
  const char* const name = "INDEXER_TWO_LEVEL_FOLD";
  for (const char* text : {"auto", " Auto\t"}) CHECK(*with(name, text).fold_mode() == FoldMode::automatic);
  for (const char* text : {"0", "false", " OFF ", "No"})
    CHECK(*with(name, text).fold_mode() == FoldMode::off);
  for (const char* text : {"1", "TRUE", "on", "Yes"}) CHECK(*with(name, text).fold_mode() == FoldMode::on);
  for (const char* text : {"", "maybe", "2", "y"}) CHECK(!with(name, text).fold_mode());
  CHECK(with(name, " MayBe ").fold_mode().error().message.ends_with("got 'maybe'"));
}

TEST_CASE("the fold limit is a non-negative Python integer of MiB, quoted raw when it is not") {
  const char* const name = "INDEXER_TWO_LEVEL_FOLD_MAX_MIB";
  CHECK(*with(name, "0").fold_budget_bytes() == 0);
  CHECK(*with(name, "-0").fold_budget_bytes() == 0);
  CHECK(*with(name, " 1_0 ").fold_budget_bytes() == 10 << 20);
  for (const char* text : {"-1", "", "1.5", "256MiB"}) CHECK(!with(name, text).fold_budget_bytes());
  CHECK(with(name, " -1 ").fold_budget_bytes().error().message.ends_with("got ' -1 '"));
  CHECK(*with(name, std::to_string(kMaxFoldBudgetMib)).fold_budget_bytes() == i64{1} << 62);
  CHECK(with(name, std::to_string(kMaxFoldBudgetMib + 1)).fold_budget_bytes().error().code ==
        ErrorCode::out_of_range);
  CHECK(with(name, std::string(400, '9')).fold_budget_bytes().error().code == ErrorCode::out_of_range);
}

TEST_CASE("every unknown word turns the stream scorer off") {
  for (const char* text : {"1", "true", " ON ", "Yes"})
    CHECK(with("INDEXER_STREAM_SCORER", text).stream_scorer());
  for (const char* text : {"0", "", "auto", "enable", "2"})
    CHECK(!with("INDEXER_STREAM_SCORER", text).stream_scorer());
}
