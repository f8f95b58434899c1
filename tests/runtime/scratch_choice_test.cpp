// What to do with a caller's scratch buffer, decided without a GPU.
#include "runtime/arena/scratch_choice.hpp"

#include "tests/catch.hpp"

using namespace moeplan;

TEST_CASE("a scratch buffer of the planned size or more is used, captured or not") {
  for (const bool is_capturing : {false, true}) {
    for (const i64 provided : {1000, 1001}) {
      const auto use = choose_scratch("decode", 1000, provided, is_capturing);
      REQUIRE(use);
      CHECK(*use == ScratchUse::provided);
    }
    CHECK(*choose_scratch("decode", 0, 0, is_capturing) == ScratchUse::provided);
  }
}

TEST_CASE("a scratch buffer that is one byte short is replaced, and refused under capture with both sizes") {
  const auto use = choose_scratch("decode", 45'624'728, 45'624'727, false);
  REQUIRE(use);
  CHECK(*use == ScratchUse::own);
  CHECK(
      scratch_warning("decode", 45'624'728, 1024) ==
      "the scratch buffer of decode is too small: it needs 45,624,728 bytes and was given 1,024; 45,624,728 "
      "bytes are allocated beside it");

  const auto captured = choose_scratch("decode", 45'624'728, 1024, true);
  REQUIRE_FALSE(captured);
  CHECK(captured.error().code == ErrorCode::scratch_too_small);
  CHECK(captured.error().message.find("needs 45,624,728 bytes and was given 1,024") != std::string::npos);
}
