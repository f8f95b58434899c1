// A second way to the same bytes: the formulas of docs/contracts.md written down once more, in 128 bits,
// without any code of the planner. Only totals; the goldens hold the tensors.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/moe/lean_geometry.hpp"
#include "planner/moe/request.hpp"

namespace moeplan::test {

__extension__ using Wide = __int128;

inline Wide cd(Wide a, Wide b) { return (a + b - 1) / b; }
inline Wide up(Wide x, Wide a) { return cd(x, a) * a; }
inline Wide bucket(Wide t) {
  Wide p = 1;
  while (p < t) p += p;
  return p;
}

inline constexpr int kSizes[] = {8, 16, 32, 48, 64};

inline int select(Wide m, Wide topk, Wide E) {
  for (int b : kSizes) {
    if (10 * m * topk < 9 * b * E) return b;
  }
  return 64;
}

inline Wide slots(Wide N, Wide b, Wide R) {
  Wide s = N + R * (b - 1);
  if (N < R) s = std::min(s, N * b);
  return s;
}

inline Wide scratch(Wide cols, Wide s, Wide b, Wide sms) {
  Wide elements = std::min(cols * s, sms * 4 * b * 256);
  if (b == 8) elements *= 2;
  return std::max<Wide>(elements, 1);
}

// Sums tensors, each starting at a multiple of 16.
struct Cursor {
  Wide end = 0;
  void add(Wide elements, int item) { end = up(end, 16) + elements * item; }
};

// The weight layout of a w4a16 request without an override.
enum class Kind { native, packed, trellis };
inline Kind kind_of(const MoeRequest& r) {
  const SourceFormat source = r.weights.source_format;
  if (source == SourceFormat::exl3_trellis_mcg || source == SourceFormat::btx) return Kind::trellis;
  if (r.weights.weight_layout == LayoutOverride::mma_packed || source == SourceFormat::compressed_tensors)
    return Kind::packed;
  if (source == SourceFormat::fp4_e8m0_k32 && r.weights.intermediate_size % 128 == 0 &&
      !r.weights.weight_layout)
    return Kind::packed;
  return Kind::native;
}

// sparkinfer-de04125: 1, sparkinfer-c2f135c: 2, b12x-36bce2c: 3; of engines alone.
inline int number_of(const Contract& contract) {
  return contract.id == "sparkinfer-de04125" ? 1 : contract.id == "sparkinfer-c2f135c" ? 2 : 3;
}

inline std::vector<int> block_set(const MoeRequest& r, int contract, Wide T, Wide topk, Wide R) {
  if (r.capacity.block_size_m) return {static_cast<int>(*r.capacity.block_size_m)};
  if (contract == 1) return {std::begin(kSizes), std::end(kSizes)};
  std::vector<int> set;
  for (int b : kSizes) {
    if (b >= select(1, topk, R) && b <= select(T, topk, R)) set.push_back(b);
  }
  return set;
}

// Core bytes of a tensor-parallel w4a16 plan without small-m or Trellis settings, at `tokens`.
inline Wide w4a16_core(const MoeRequest& r, Wide tokens, Wide R, std::vector<int> set) {
  const int contract = number_of(*r.contract);
  const Kind kind = kind_of(r);
  const Wide k = r.weights.hidden_size, n = r.weights.intermediate_size, sms = *r.device.sm_count;
  const Wide topk = std::max<i64>(r.capacity.top_k, 1);
  const Wide N = std::max<Wide>(tokens * topk, 1);
  const bool gated = r.weights.activation != Activation::relu2;
  const Wide c1 = gated ? 2 * n : n;

  Wide direct[65] = {};
  if (contract >= 2 && kind == Kind::packed) {
    const int cap = gated && r.weights.io_dtype == DType::bfloat16 ? 8 : 6;
    for (Wide m = 1; m <= std::min<Wide>(tokens, cap); ++m) {
      const int b = r.capacity.block_size_m ? static_cast<int>(*r.capacity.block_size_m) : select(m, topk, R);
      direct[b] = std::max(direct[b], m * topk * b);
    }
  }
  Wide S = 1, Kb = 1, F1 = 1, F2 = 1;
  for (int b : set) {
    const Wide s = slots(N, b, R);
    S = std::max(S, s);
    Kb = std::max(Kb, cd(s, b));
    F1 = std::max(F1, scratch(c1, std::max(s, direct[b]), b, sms));
    F2 = std::max(F2, scratch(k, std::max(s, direct[b]), b, sms));
  }
  Wide C2 = N * n;
  const Wide m = N / topk;
  const bool e8m0 = r.weights.source_format == SourceFormat::fp4_e8m0_k32;
  if (kind == Kind::native && r.weights.io_dtype == DType::bfloat16 && m <= 8 && k % 128 == 0 &&
      cd(k, 512) <= 12 && n % 16 == 0 && topk <= 32 &&
      (!e8m0 || (n % 32 == 0 && (cd(n / 2, 128) == 1 || n % 256 == 0))))
    C2 = std::max(C2, m * topk * cd(n / 2, 128) * 128 * 4 / 2);

  const bool trellis = kind == Kind::trellis;
  Cursor at;
  at.add(N * std::max(c1, k), 2);
  at.add(C2, 2);
  at.add(F1, 4);
  at.add(F2, 4);
  at.add(S, 4);
  at.add(Kb, 4);
  at.add(1, 4);
  at.add(R + 1, 4);
  if (trellis || contract == 3) at.add(R, 4);
  if (trellis) {
    at.add(m * k, 4);
    at.add(N * k, 2);
    if (contract < 3) at.add(N * k, 2);
    at.add(4 * sms + 2, 4);
    if (contract == 3) at.add(N * k, 2);
  }
  return at.end;
}

// Router workspace ahead of the core, for requests without a logits type of their own.
inline Wide router_bytes(const MoeRequest& r) {
  const Wide experts = r.capacity.route_experts.value_or(r.weights.experts);
  if (experts <= 0) return 0;
  const Wide tokens = std::max<i64>(r.capacity.max_tokens, 1), topk = std::max<i64>(r.capacity.top_k, 1);
  Cursor at;
  at.add(tokens * experts, 2);
  for (int i = 0; i < 3; ++i) at.add(tokens * topk, 4);
  return up(at.end, 16);
}

inline std::vector<Wide> token_list(const MoeRequest& r, bool bucketed) {
  const auto exact = [&](Wide t) { return bucketed ? bucket(std::max<Wide>(t, 1)) : std::max<Wide>(t, 1); };
  const Wide M = exact(r.capacity.max_tokens);
  std::vector<Wide> list{M};
  const Wide q = 64 / std::max<i64>(r.capacity.top_k, 1);
  if (q >= 1 && exact(std::min(M, q)) != M) list.push_back(exact(std::min(M, q)));
  return list;
}

// Total bytes of a tensor-parallel w4a16 request without a core token list.
inline Wide reference_w4a16(const MoeRequest& r) {
  const int contract = number_of(*r.contract);
  const bool trellis = kind_of(r) == Kind::trellis;
  const Wide topk = std::max<i64>(r.capacity.top_k, 1);
  const Wide E = r.weights.experts;
  const Wide router = r.capacity.route_experts.value_or(0) > 0 ? *r.capacity.route_experts : E;
  const Wide R = contract == 3 ? std::max(E, router) : contract == 1 || trellis ? router : E;
  const auto list = token_list(r, !trellis);
  MoeRequest fixed = r;
  if (contract == 3 && trellis && !r.capacity.block_size_m)
    fixed.capacity.block_size_m = select(*std::max_element(list.begin(), list.end()), topk, router);
  Wide core = 0;
  for (Wide tokens : list)
    core = std::max(core, w4a16_core(fixed, tokens, R, block_set(fixed, contract, tokens, topk, R)));
  return std::max<Wide>(router_bytes(r) + core, 1);
}

// Total bytes of a request of the lean contract.
inline Wide reference_lean(const MoeRequest& r) {
  const Wide k = r.weights.hidden_size, n = r.weights.intermediate_size;
  const Wide topk = std::max<i64>(r.capacity.top_k, 1), T = std::max<i64>(r.capacity.max_tokens, 1);
  const Wide R = r.capacity.route_experts.value_or(0) > 0 ? *r.capacity.route_experts : r.weights.experts;
  const Wide N = T * topk;
  const bool is_decode = T <= 64;
  const Wide fitting = (is_decode ? Wide{6'291'456} : Wide{25'165'824}) / (N * 2) / 128;
  const Wide slice = std::min(k, std::max<Wide>(fitting, 1) * 128);
  Cursor at;
  at.add(std::max(T * k, N * n), 4);  // 2n halves a row are n floats
  at.add(N * n, 2);
  at.add(N * slice, 2);
  if (!is_decode) {
    at.add(slots(N, kLeanBlock, R), 4);
    at.add(cd(slots(N, kLeanBlock, R), kLeanBlock), 4);
    at.add(1, 4);
    at.add(R + 1, 4);
    at.add(R, 4);
    at.add(4, 4);
  }
  return router_bytes(r) + at.end;
}

// Total bytes of an expert-parallel request.
inline Wide reference_expert_parallel(const MoeRequest& r) {
  const int contract = number_of(*r.contract);
  const Wide k = r.weights.hidden_size, n = r.weights.intermediate_size, sms = *r.device.sm_count;
  const Wide topk = std::max<i64>(r.capacity.top_k, 1), T = std::max<i64>(r.capacity.max_tokens, 1);
  const Wide G = *r.capacity.global_experts, rows = T * topk, cap = bucket(T) * topk;
  const Wide c1 = r.weights.activation != Activation::relu2 ? 2 * n : n;
  Wide S = 1, Kb = 1, F1 = 1, F2 = 1;
  for (int b : block_set(r, contract, T, topk, G)) {
    const Wide s = slots(cap, b, G);
    S = std::max(S, s);
    Kb = std::max(Kb, cd(s, b));
    F1 = std::max(F1, scratch(c1, s, b, sms));
    F2 = std::max(F2, scratch(k, s, b, sms));
  }
  Cursor at;
  at.add(rows * std::max(c1, k), 2);
  at.add(rows * n, 2);
  at.add(F1, 4);
  at.add(F2, 4);
  at.add(S, 4);
  at.add(Kb, 4);
  at.add(1, 4);
  at.add(G + 1, 4);
  if (contract == 3) at.add(G, 4);
  return up(at.end, 16);
}

// Total bytes of a dynamic w6a8_mx request: the plainest of section 9, 128 rows a tile.
inline Wide reference_w6a8_mx(const MoeRequest& r) {
  const Wide k = r.weights.hidden_size, n = r.weights.intermediate_size, E = r.weights.experts;
  const Wide topk = std::max<i64>(r.capacity.top_k, 1);
  Wide core = 0;
  for (Wide tokens : token_list(r, false)) {
    const Wide rows = tokens * topk, tiles = cd(rows, 128) + std::min(E, rows) - 1, rp = tiles * 128;
    const Wide tasks = tiles * std::max<Wide>(1, cd(n, 128)), pk = up(k / 16, 4);
    Cursor at;
    at.add(E, 4);
    at.add(rows, 4);
    at.add(rows, 4);
    at.add(rp, 4);
    at.add(rp, 4);
    at.add((r.capacity.deterministic_output.value_or(false) ? rows : 1) * k, 2);
    at.add(k, 2);  // 16 bytes are less than a row
    at.add(rp * k, 1);
    at.add(up(rp, 128) * pk, 1);
    at.add(E, 4);
    at.add(E + 1, 4);
    at.add(E, 4);
    at.add(E, 4);
    for (int i = 0; i < 5; ++i) at.add(1, 4);
    for (int i = 0; i < 6; ++i) at.add(tasks, 4);
    at.add(tiles, 4);
    core = std::max(core, at.end);
  }
  return router_bytes(r) + core;
}

}  // namespace moeplan::test
