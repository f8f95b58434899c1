// How long the best public kernels took for calls of an indexer, as recorded: the one table of them.
#pragma once

#include <span>
#include <string_view>

#include "runtime/bench/indexer_shape.hpp"

namespace moeplan {

inline constexpr std::string_view kPeerGpu = "NVIDIA H200";
inline constexpr std::string_view kPeers =
    "DeepGEMM's fp8 MQA logits and the best exact top-k of torch, vLLM, sgl-kernel and FlashInfer";

struct IndexerPeer {
  IndexerShape shape;
  i64 chain_ns;   // logits and top-k in one graph; of a prefill the sum of both
  i64 logits_ns;  // alone
};

std::span<const IndexerPeer> indexer_peers();

// Null: none was recorded for the shape.
const IndexerPeer* find_peer(const IndexerShape& shape);

}  // namespace moeplan
