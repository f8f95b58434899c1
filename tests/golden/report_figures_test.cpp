// The figures of the public report on scratch sizing, each by name.
#include "cli/render/text.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// The report's deployment: hidden 6144, 512 per rank, 160 experts, top-k 8, 188 SMs, contract of the report.
MoeLayout reported_trellis(i64 tokens, std::optional<i64> block_size, std::optional<i64> route_experts = 0,
                           i64 experts = 160) {
  MoeRequest request = trellis_request("sparkinfer-de04125", experts, 6144, 512, 8, tokens, 188);
  request.capacity.block_size_m = block_size;
  request.capacity.route_experts = route_experts;
  return *plan_moe(request);
}

std::string mib(i64 bytes) { return mebibytes(bytes); }

i64 c_tmp_bytes(const MoeLayout& layout) {
  return bytes_of(layout, "fc1_c_tmp") + bytes_of(layout, "fc2_c_tmp");
}

}  // namespace

TEST_CASE("the 64-token decode plan needs 43.51 MiB at block 8 and 108.42 MiB unpinned") {
  CHECK(reported_trellis(64, 8).total_bytes == 45'624'728);
  CHECK(reported_trellis(64, std::nullopt).total_bytes == 113'686'936);
  CHECK(mib(reported_trellis(64, 8).total_bytes) == "43.51");
  CHECK(mib(reported_trellis(64, std::nullopt).total_bytes) == "108.42");
}

TEST_CASE("its split-K scratch is 23.50 MiB at block 8 and 88.375 MiB at block 64") {
  CHECK(c_tmp_bytes(reported_trellis(64, 8)) == 24'641'536);
  CHECK(c_tmp_bytes(reported_trellis(64, 64)) == 92'667'904);
  CHECK(mib(c_tmp_bytes(reported_trellis(64, 8))) == "23.50");
  CHECK(c_tmp_bytes(reported_trellis(64, 64)) * 1000 == 88'375 * (i64{1} << 20));
}

TEST_CASE("prefill plans need 1,054.14 MiB at 3,072 tokens and 2,654.30 MiB at 8,192") {
  CHECK(reported_trellis(3072, 64).total_bytes == 1'105'344'232);
  CHECK(reported_trellis(8192, 64).total_bytes == 2'783'232'232);
  CHECK(mib(reported_trellis(3072, 64).total_bytes) == "1,054.14");
  CHECK(mib(reported_trellis(8192, 64).total_bytes) == "2,654.30");
}

TEST_CASE("with its router the 3,072-token plan needs 1,055.36 MiB") {
  const MoeLayout layout = reported_trellis(3072, 64, std::nullopt);
  CHECK(layout.total_bytes == 1'106'622'184);
  CHECK(layout.route_bytes == 1'277'952);
  CHECK(mib(layout.total_bytes) == "1,055.36");
}

TEST_CASE("narrowing an unpinned packed 64-token plan takes 94.94 MiB to 30.03 MiB with the router") {
  const auto unpinned = [](const char* contract) {
    return plan_moe(packed_request(contract, 160, 6144, 512, 8, 64, 188))->total_bytes;
  };
  CHECK(mib(unpinned("sparkinfer-de04125")) == "94.94");
  CHECK(mib(unpinned("sparkinfer-c2f135c")) == "30.03");
}

TEST_CASE("smaller prefill capacities need 574.09 MiB, 254.06 MiB and 130.42 MiB") {
  CHECK(mib(reported_trellis(1536, 64).total_bytes) == "574.09");
  CHECK(mib(reported_trellis(512, 64).total_bytes) == "254.06");
  CHECK(mib(reported_trellis(128, 64).total_bytes) == "130.42");
}

TEST_CASE("a 32-token decode plan needs 32.51 MiB") {
  CHECK(mib(reported_trellis(32, 8).total_bytes) == "32.51");
}

TEST_CASE("bucketing 3,072 tokens to 4,096 would cost 320.03 MiB") {
  CHECK(mib(reported_trellis(4096, 64).total_bytes - reported_trellis(3072, 64).total_bytes) == "320.03");
}

TEST_CASE("an unpinned block costs 64.91 MiB a rank at 64 tokens") {
  CHECK(mib(reported_trellis(64, std::nullopt).total_bytes - reported_trellis(64, 8).total_bytes) == "64.91");
}

TEST_CASE("with the checkpoint's 256 experts the two plans need 43.51 MiB and 1,054.16 MiB") {
  CHECK(mib(reported_trellis(64, 8, 0, 256).total_bytes) == "43.51");
  CHECK(mib(reported_trellis(3072, 64, 0, 256).total_bytes) == "1,054.16");
  CHECK(mib(reported_trellis(8192, 64, 0, 256).total_bytes) == "2,654.32");
}
