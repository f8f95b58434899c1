// Which points of a sweep are shown, and in which order, in memory that does not grow with the sweep.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cli/sweep/columns.hpp"

namespace moeplan {

struct Selection {
  std::vector<const SweepColumn*> pareto;  // all of the front's measures; empty: no front
  // Sorted by an axis or a column; neither: in the order of the grid.
  int sort_axis = -1;
  const SweepColumn* sort_column = nullptr;
  bool descending = false;
  i64 top = 0;  // 0: all

  bool keeps_all() const { return pareto.empty() && sort_axis < 0 && !sort_column && top == 0; }
};

// "bytes,launches" of --pareto, "bytes:desc" of --sort.
Result<Selection> parse_selection(std::string_view pareto, std::string_view sort, i64 top,
                                  const Sweep& sweep);

// Notes at the sweep what the columns, and those of the selection, need.
void require_facts(std::span<const SweepColumn* const> columns, const Selection& selection, Sweep& sweep);

// Takes points in the order of the grid; holds the front, or about twice the top.
class Selector {
 public:
  Selector(const Selection& selection, const SweepView& view) : selection_(selection), view_(view) {}

  void take(const SweepPoint& point);
  // The points that are shown, in their order. Call once.
  std::vector<SweepPoint> finish();
  i64 kept() const { return static_cast<i64>(kept_.size()); }
  i64 incomparable() const { return incomparable_; }  // left out of the front: a measure is not known

 private:
  struct Kept {
    SweepPoint point;
    Cell key;                   // it is sorted by
    std::vector<i64> measures;  // of the front
  };
  void take_into_front(Kept kept);
  void shorten();

  const Selection& selection_;
  const SweepView& view_;
  std::vector<Kept> kept_;
  i64 incomparable_ = 0;
};

// Whether `a` is at least as good as `b` everywhere and better somewhere; less is better.
bool dominates(std::span<const i64> a, std::span<const i64> b);

}  // namespace moeplan
