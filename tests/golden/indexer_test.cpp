// Recorded indexer arenas, folds, policies and calls of the original planners.
#include "tests/golden/recorded.hpp"

using namespace moeplan::test;

TEST_CASE("every recorded indexer answer is given alike") {
  CHECK(compare_recorded("tests/golden/indexer.jsonl") == 62);
}

TEST_CASE("batch fields belong to their kinds") {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"kind":"moe_tp","contract":"b12x-36bce2c","device":{"sm_count":1},"caps":{}})", "/caps"},
      {R"({"kind":"moe_ep","contract":"b12x-36bce2c","device":{"sm_count":1},"env":{}})", "/env"},
      {R"({"kind":"indexer","contract":"b12x-36bce2c","device":{"sm_count":1},"weights":{}})", "/weights"},
      {R"({"kind":"indexer_fold","contract":"b12x-36bce2c","purpose":"size"})", "/purpose"},
      {R"({"kind":"indexer_step","contract":"b12x-36bce2c","caps":{}})", "/caps"},
      {R"({"kind":"indexer_paged","contract":"b12x-36bce2c","args":{}})", "/args"},
      {R"({"kind":"indexer_paged","contract":"b12x-36bce2c","caps":{"max_rows":1}})", "/caps/max_rows"},
      {R"({"kind":"indexer_fused","contract":"b12x-36bce2c","caps":{"max_rows":1,"top_k":512}})",
       "/caps/max_width"},
  };
  moeplan::BatchAnswerer answerer;
  for (const auto& [request, pointer] : kCases) {
    std::string text;
    CHECK(!answerer.answer(request, 1, text));
    CHECK(Json::parse(text)["error"]["pointer"] == pointer);
  }
}

TEST_CASE("MoE activations and router logits take none of the indexer's element types") {
  moeplan::BatchAnswerer answerer;
  for (const char* type : {"int64", "uint64", "float8_e4m3fn"}) {
    Json request = Json::parse(R"({"kind":"moe_tp","contract":"b12x-36bce2c","device":{"sm_count":1},
      "weights":{"quant_mode":"w4a16","source_format":"modelopt_nvfp4","activation":"silu","io_dtype":"bfloat16",
                 "experts":8,"hidden_size":512,"intermediate_size":512},
      "capacity":{"max_tokens":8,"top_k":2}})");
    std::string text;
    CHECK(answerer.answer(request.dump(), 1, text));
    text.clear();
    request["weights"]["io_dtype"] = type;
    CHECK(!answerer.answer(request.dump(), 1, text));
    CHECK(Json::parse(text)["error"]["code"] == "unsupported_io_dtype");
    text.clear();
    request["weights"]["io_dtype"] = "bfloat16";
    request["capacity"]["route_logits_dtype"] = type;
    CHECK(!answerer.answer(request.dump(), 1, text));
  }
}
