#include "cli/progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "planner/core/text.hpp"

namespace moeplan {

ProgressLine::ProgressLine(i64 total, std::string_view unit, bool wanted)
    : total_(total), unit_(unit), shows_(wanted && total > 0 && ::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::show(i64 done) {
  using namespace std::chrono;
  if (!shows_) return;
  const auto now = Clock::now();
  if (now - start_ < milliseconds(500) || now - last_ < milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  constexpr i64 kWidth = 30;
  // Shares of at most 2^62: divide ahead of multiplying.
  const i64 permille = total_ < 1'000'000 ? done * 1000 / total_ : done / (total_ / 1000);
  const auto full = static_cast<std::size_t>(min_of(permille, 1000) * kWidth / 1000);
  const std::string bar = std::string(full, '#') + std::string(kWidth - full, '.');
  std::fprintf(stderr, "\r[%s] %lld.%lld%% of %s %s", bar.c_str(), permille / 10, permille % 10,
               grouped(total_).c_str(), unit_.c_str());
}

}  // namespace moeplan
