// How long the best public kernels took for calls of an indexer, as recorded: the one table of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/bench/indexer_shape.hpp"

namespace moeplan {

inline constexpr std::string_view kPeerGpu = "NVIDIA H200";
inline constexpr std::string_view kPeers =
    "DeepGEMM's fp8 MQA logits and the best exact top-k of torch, vLLM, sgl-kernel and FlashInfer";

struct IndexerPeer {
  IndexerShape shape;
  i64 chain_ns;   // logits and top-k
  i64 logits_ns;  // alone
  bool is_sum;    // chain_ns adds both, each recorded alone; else they ran in one graph
};

std::span<const IndexerPeer> indexer_peers();

// Single rows of 64 heads have that of 32. Null: none was recorded for the shape.
const IndexerPeer* find_peer(const IndexerShape& shape);

// What a peer's time is of, where it is not this shape's chain in one graph: "of 32 heads", "logits + top-k",
// else "".
std::string peer_note(const IndexerShape& shape, const IndexerPeer& peer);

}  // namespace moeplan
