// PlanRequest: one arena that is asked for, of whatever kind.
#pragma once

#include <string>
#include <string_view>

#include "planner/moe/request.hpp"

namespace moeplan {

enum class RequestKind { moe_tp, moe_ep };
inline constexpr std::string_view kRequestKindNames[] = {"moe_tp", "moe_ep"};
constexpr std::string_view name_of(RequestKind kind) { return kRequestKindNames[static_cast<int>(kind)]; }

struct PlanRequest {
  std::string id;
  RequestKind kind = RequestKind::moe_tp;
  MoeRequest moe;
};

}  // namespace moeplan
