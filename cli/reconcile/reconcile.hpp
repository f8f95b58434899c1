// The figures of a start-up log against the plan of the settings in it: one row a figure, in reconcile.cpp.
// A printed value stands for half of its last digit either way; so do the printed inputs of a prediction.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/import/engine_log.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// A figure of the closed list.
struct FigureName {
  std::string_view what;
  std::string_view unit;
  std::string_view rule;  // how it is predicted, and when it matches
};
std::vector<FigureName> reconciled_figures();

struct ReconciledFigure {
  FigureName name;
  i64 line = 0;           // of the log
  std::string predicted;  // in the unit: one value, or both ends as "lo..hi"; "" when it cannot be derived
  std::string logged;     // as printed, without group commas
  std::optional<bool> match;
  std::string why;  // there is no prediction, or what else could be the case
};

// What is known of the deployment. Sections that the log does not show may be missing, and fields of those it
// shows in part.
struct KnownDeployment {
  const Deployment* deployment = nullptr;  // null: the log does not show a start
  std::vector<Missing> missing;
};

// Every figure of the list that the log prints, in the order of the list; each distinct value once.
std::vector<ReconciledFigure> reconcile(const EngineLog& log, const KnownDeployment& known);

}  // namespace moeplan
