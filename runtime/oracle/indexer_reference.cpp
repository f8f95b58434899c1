#include "runtime/oracle/indexer_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "planner/core/text.hpp"

namespace moeplan::oracle {
namespace {

constexpr i64 kPageTokens = 64;
constexpr i64 kDimensions = 128;
constexpr double kNone = -std::numeric_limits<double>::infinity();

std::size_t at(i64 index) { return static_cast<std::size_t>(index); }

// Four bits of exponent, biased by 7; three of mantissa; no infinities.
double number_of(std::uint8_t e4m3) {
  const int exponent = e4m3 >> 3 & 15, mantissa = e4m3 & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return e4m3 & 0x80 ? -size : size;
}

bool is_before(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

}  // namespace

IndexerLogits indexer_logits(const IndexerCall& call, i64 row) {
  double values[256];
  for (int bits = 0; bits < 256; ++bits) values[bits] = number_of(static_cast<std::uint8_t>(bits));
  const i64 tokens = call.table_width * kPageTokens;
  IndexerLogits logits{std::vector<double>(at(tokens), kNone), std::vector<double>(at(tokens), 0.0)};
  for (i64 token = 0; token < std::min<i64>(tokens, call.lengths[at(row)]); ++token) {
    const i64 page = call.page_table[at(row * call.table_width + token / kPageTokens)];
    if (page < 0) continue;
    const std::uint8_t* bytes = call.cache.data() + page * call.page_stride;
    const std::uint8_t* key = bytes + token % kPageTokens * kDimensions;
    float scale;
    std::memcpy(&scale, bytes + kPageTokens * kDimensions + token % kPageTokens * 4, sizeof scale);
    double sum = 0, magnitude = 0;
    for (i64 head = 0; head < call.heads; ++head) {
      const std::uint8_t* q = call.q.data() + (row * call.heads + head) * kDimensions;
      double dot = 0;
      for (i64 d = 0; d < kDimensions; ++d) dot += values[q[d]] * values[key[d]];
      const double addend =
          static_cast<double>(call.weights[at(row * call.heads + head)]) * std::max(dot, 0.0);
      sum += addend;
      magnitude += std::abs(addend);
    }
    logits.values[at(token)] = static_cast<double>(scale) * sum;
    logits.magnitudes[at(token)] = static_cast<double>(scale) * magnitude;
  }
  return logits;
}

std::string selection_problem(std::span<const double> logits, double error,
                              std::span<const std::int32_t> indices, std::span<const float> scores) {
  std::vector<double> valid;
  for (const double logit : logits)
    if (std::isnan(logit) || logit > kNone) valid.push_back(logit);
  const std::size_t wanted = std::min(indices.size(), valid.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i >= wanted) {
      if (indices[i] != -1 || !(scores[i] == -std::numeric_limits<float>::infinity()))
        return concat("place ", i, " of ", wanted, " is not padded, it has index ", indices[i]);
      continue;
    }
    if (indices[i] < 0 || indices[i] >= std::ssize(logits))
      return concat("place ", i, " has index ", indices[i]);
    if (i > 0 && indices[i] <= indices[i - 1]) return concat("index ", indices[i], " does not rise");
    const double logit = logits[at(indices[i])], score = static_cast<double>(scores[i]);
    if (std::isnan(logit) ? !std::isnan(score) : !(std::abs(score - logit) <= error))
      return concat("token ", indices[i], " has score ", std::to_string(score), ", not ",
                    std::to_string(logit));
  }
  if (wanted == 0) return "";
  const auto last = valid.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
  std::ranges::nth_element(valid, last, is_before);
  const double least = *last;
  // Scores of both sides of the boundary are off by up to an error each.
  const double above = std::isnan(least) ? least : least + 2 * error;
  const double below = std::isnan(least) ? least : least - 2 * error;
  auto next = indices.begin();
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const bool is_selected = next != indices.end() && *next == static_cast<std::int32_t>(token);
    if (is_selected) ++next;
    if (!is_selected && is_before(logits[token], above)) return concat("token ", token, " is missing");
    if (is_selected && is_before(below, logits[token]))
      return concat("token ", token, " is not among the best");
  }
  return "";
}

std::vector<std::int32_t> exact_selection(std::span<const float> logits, i64 top_k) {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (!(logits[i] == -std::numeric_limits<float>::infinity()))
      order.push_back(static_cast<std::int32_t>(i));
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return is_before(static_cast<double>(logits[at(a)]), static_cast<double>(logits[at(b)]));
  });
  order.resize(std::min(order.size(), at(top_k)));
  std::ranges::sort(order);
  order.resize(at(top_k), -1);
  return order;
}

}  // namespace moeplan::oracle
