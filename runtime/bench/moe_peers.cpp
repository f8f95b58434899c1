#include "runtime/bench/moe_peers.hpp"

namespace moeplan {
namespace {

// Measured by us on one NVIDIA H200 of 132 multiprocessors, as this project times its own kernels: calls over
// random inputs that rotate, of more bytes than the L2 cache holds, captured into one graph; events around
// its replays, the median of those. Routing is uniform, top-k 8; hidden 6144, 512 columns a rank.
constexpr i64 kHidden = 6144, kIntermediate = 512, kTopK = 8;

constexpr MoePeer kExl3 = {"exllamav3", "3 bit Trellis, as ours", 3};
constexpr MoePeer kInt4 = {"vLLM Marlin int4", "4-bit weights in groups of 128, no Trellis decode", 0};
constexpr MoePeer kNvfp4 = {"vLLM Marlin nvfp4", "4-bit weights, no Trellis decode", 0};

// 0: not recorded.
struct RecordedRow {
  i64 experts;
  i64 tokens;
  i64 exl3_ns;
  i64 int4_ns;
  i64 nvfp4_ns;
};

// clang-format off
constexpr RecordedRow kRecorded[] = {
    {160, 1, 84'600, 36'400, 38'000},
    {160, 2, 129'400, 51'400, 57'900},
    {160, 4, 198'700, 72'400, 88'900},
    {160, 8, 385'500, 107'700, 136'500},
    {160, 16, 687'000, 164'100, 208'900},
    {160, 32, 954'000, 223'600, 295'000},
    {160, 64, 1'146'000, 265'800, 347'300},
    {160, 512, 2'486'000, 541'800, 595'900},
    {160, 1024, 0, 831'000, 936'700},
    {160, 1536, 0, 1'468'000, 1'641'000},
    {160, 3072, 11'563'000, 2'321'000, 2'575'000},
    {160, 8192, 0, 5'442'000, 5'983'000},
    {256, 1, 0, 39'000, 0},
    {256, 64, 0, 367'800, 0},
    {256, 3072, 0, 2'461'700, 0},
};
// clang-format on

}  // namespace

std::vector<MoePeerTime> moe_peers(const MoeShape& shape, i64 tokens) {
  std::vector<MoePeerTime> found;
  if (shape.hidden != kHidden || shape.intermediate != kIntermediate || shape.top_k != kTopK) return found;
  for (const RecordedRow& row : kRecorded) {
    if (row.experts != shape.experts || row.tokens != tokens) continue;
    const MoePeerTime times[] = {
        {kExl3, tokens, row.exl3_ns}, {kInt4, tokens, row.int4_ns}, {kNvfp4, tokens, row.nvfp4_ns}};
    for (const MoePeerTime& time : times) {
      const bool is_of_bits = time.peer.bits == 0 || time.peer.bits == shape.bits;
      if (is_of_bits && time.nanoseconds > 0) found.push_back(time);
    }
  }
  return found;
}

}  // namespace moeplan
