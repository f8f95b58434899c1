#include "planner/deployment/indexer_findings.hpp"

#include <utility>

#include "planner/core/python_int.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/paged.hpp"

namespace moeplan {
namespace {

struct Facts {
  const Deployment& deployment;
  const std::vector<DeployedIndexer>& plans;
};

using Findings = std::vector<Finding>;

std::string env_pointer(std::string_view name) { return concat("/deployment/env/", name); }

bool is_off_word(std::string_view text) {
  const std::string word = normalised(text);
  return word == "0" || word == "false" || word == "off" || word == "no" || word.empty();
}

void not_planned(const Facts& facts, Findings& out) {
  for (Finding& finding : indexer_not_planned(facts.deployment)) out.push_back(std::move(finding));
}

void untouched_reserve(const Facts& facts, Findings& out) {
  for (const DeployedIndexer& plan : facts.plans) {
    const i64 bytes = untouched_bytes(*plan.layout);
    if (bytes == 0) continue;
    std::vector<std::string_view> names;
    for (const TensorSpec& tensor : plan.layout->arena.tensors) {
      if (!route_touches(plan.layout->route, tensor.name)) names.push_back(tensor.name);
    }
    out.push_back({.rule = "indexer-untouched-reserve",
                   .level = "note",
                   .pointer = "/deployment",
                   .message = concat(plan.request->id, ": ", grouped(bytes), " bytes are reserved that ",
                                     name_of(plan.layout->route), " never touches: ", join(names, ", ")),
                   .remedy = "none without another planner: the engine lays out one list of tensors for "
                             "every route",
                   .bytes = bytes});
  }
}

void late_allocations(const Facts& facts, Findings& out) {
  for (const DeployedIndexer& plan : facts.plans) {
    const LateAllocation& late = plan.late;
    if (late.bytes == 0) continue;
    const std::string_view prefix = plan.request->indexer.contract->environment_prefix;
    out.push_back(
        {.rule = "indexer-late-allocation",
         .level = "warning",
         .pointer = "/deployment/max_model_len",
         .message = concat(plan.request->id, ": each call allocates up to ", grouped(late.bytes), " bytes (",
                           late.what, ") outside every arena and after the start-up profile; the peak is at ",
                           grouped(late.tokens), " tokens of context with ", grouped(late.rows), " rows"),
         .remedy = late.slices > 0 ? concat("leave that much margin free, or lower ", prefix,
                                            "INDEXER_TWO_LEVEL_FOLD_MAX_MIB; ", prefix,
                                            "INDEXER_TWO_LEVEL_FOLD=off makes calls carry instead")
                                   : "leave that much margin free, or pass the call its own score buffer",
         .bytes = late.bytes});
  }
}

// The 32 slices aimed at are no cap: a slice never crosses a supertile. From 524,352 to 1,046,528 tokens of
// default supertiles each one makes two slices, up to 63; small supertiles make one each, however many there
// are.
void fold_cap_exceeded(const Facts& facts, Findings& out) {
  for (const DeployedIndexer& plan : facts.plans) {
    const LateAllocation& late = plan.late;
    // A slab that the budget cuts to fewer rows is as large as the budget, however many slices it has.
    const bool is_cut = late.rows < max_of(*plan.request->indexer.caps.max_q_rows, 1);
    if (late.slices <= kFoldSlices || is_cut) continue;
    const i64 meant = late.rows * fold_row_bytes(kFoldSlices, *plan.request->indexer.caps.top_k);
    out.push_back({.rule = "indexer-fold-cap",
                   .level = "warning",
                   .pointer = "/deployment/max_model_len",
                   .message = concat(plan.request->id, ": the fold's cap of ", kFoldSlices,
                                     " slices is no cap: ", grouped(late.tokens), " tokens of context make ",
                                     late.slices, " slices, ", grouped(late.bytes - meant), " bytes more"),
                   .remedy = "plan with this peak, not with the slab at the longest context; default "
                             "supertiles exceed the cap from 524,352 to 1,046,528 tokens",
                   .bytes = late.bytes - meant});
  }
}

// The default supertile shrinks to the context; a stated one does not.
void supertile_beyond_context(const Facts& facts, Findings& out) {
  for (const DeployedIndexer& plan : facts.plans) {
    const IndexerRequest& request = plan.request->indexer;
    const IndexerEnvironment env(request.contract->environment_prefix, request.env);
    const auto stated = env.supertile_k();
    if (!stated || !*stated) continue;
    const i64 context = *request.caps.max_page_table_width * kKernelPageSize;
    const i64 fitting = clamp_supertile(kDefaultSupertile, context);
    const i64 supertile = std::get<PagedMeta>(plan.layout->meta).supertile_tokens;
    if (supertile <= supertile_tokens(context)) continue;
    const i64 bytes = tile_logits_elements(*request.caps.max_q_rows, supertile - fitting) * 4;
    out.push_back({.rule = "indexer-supertile-beyond-context",
                   .level = "warning",
                   .pointer = env_pointer(env.name(IndexerVariable::supertile_k)),
                   .message = concat(plan.request->id, ": a stated supertile of ", supertile,
                                     " tokens is longer than the context of ", context, " and reserves ",
                                     bytes, " bytes of logits that no call reaches"),
                   .remedy = concat("leave ", env.name(IndexerVariable::supertile_k),
                                    " unset: the default shrinks to the context"),
                   .bytes = bytes});
  }
}

void ignored_variables(const Facts& facts, Findings& out) {
  const std::string_view prefix = facts.deployment.contract->environment_prefix;
  for (const auto& [name, text] : facts.deployment.engine->env) {
    for (std::string_view other : {std::string_view("SPARKINFER_"), std::string_view("B12X_")}) {
      if (other == prefix || !name.starts_with(other)) continue;
      out.push_back({.rule = "indexer-ignored-variable",
                     .level = "warning",
                     .pointer = env_pointer(name),
                     .message = concat(name, " is silently ignored: ", facts.deployment.contract->id,
                                       " reads ", prefix, "* only"),
                     .remedy = concat("rename it to ", prefix, std::string_view(name).substr(other.size()),
                                      ", or drop it"),
                     .bytes = 0});
    }
  }
}

// Texts that a person reads one way and the engine another.
struct MisleadingText {
  std::string_view variable;  // without prefix; with it where `bare` is true
  bool bare;
  bool (*misleads)(std::string_view text);
  std::string_view means;
  std::string_view remedy;
};

constexpr MisleadingText kMisleadingTexts[] = {
    {"FUSED_INDEXER", false, [](std::string_view text) { return text != "0" && is_off_word(text); },
     "leaves the fused route on: only exactly 0 turns it off", "write 0"},
    {"INDEXER_STREAM_SCORER", false,
     [](std::string_view text) {
       const std::string word = normalised(text);
       return !is_off_word(text) && word != "1" && word != "true" && word != "on" && word != "yes";
     },
     "turns the stream scorer off: every word but 1, true, on, yes does", "write 1 or 0"},
    {"INDEXER_DIRECT_K", false,
     [](std::string_view text) { return text == "off" || (is_off_word(text) && text != normalised(text)); },
     "leaves direct K on: off and words with blanks around them count as on", "write 0"},
    {"NSA_CONTIGUOUS_PREFILL_THRESHOLD", false,
     [](std::string_view text) {
       const auto value = parse_python_int(text);
       return value && *value > 1;
     },
     "is no threshold: any number above 0 turns the prefill scorer on for every row count", "write 1 or 0"},
    {"PAGED_INDEX_SUPERTILE_K", false,
     [](std::string_view text) {
       const auto value = parse_python_int(text);
       return value && *value <= 0;
     },
     "gives the smallest supertile, 512 tokens, not the default", "leave it unset for the default"},
    {"VLLM_EXL3_PREFILL_TRELLIS", true,
     [](std::string_view text) { return text != "1" && !is_off_word(text); },
     "turns the prefill plan off: only exactly 1 turns it on", "write 1 or 0"},
};

void misleading_texts(const Facts& facts, Findings& out) {
  const std::string_view prefix = facts.deployment.contract->environment_prefix;
  for (const auto& [name, text] : facts.deployment.engine->env) {
    for (const MisleadingText& row : kMisleadingTexts) {
      const std::string full = row.bare ? std::string(row.variable) : concat(prefix, row.variable);
      if (name != full || !row.misleads(text)) continue;
      out.push_back({.rule = "misleading-variable",
                     .level = "warning",
                     .pointer = env_pointer(name),
                     .message = concat(name, "=", text, " ", row.means),
                     .remedy = std::string(row.remedy),
                     .bytes = 0});
    }
  }
}

}  // namespace

i64 untouched_bytes(const IndexerLayout& layout) {
  i64 bytes = 0;
  for (const TensorSpec& tensor : layout.arena.tensors) {
    if (!route_touches(layout.route, tensor.name)) bytes += align_up(tensor.bytes, kIndexerAlignment);
  }
  return bytes;
}

std::vector<Finding> indexer_not_planned(const Deployment& deployment) {
  std::vector<Finding> findings;
  if (!deployment.engine || !has_indexer(deployment)) return findings;
  const std::pair<std::string_view, bool> stated[] = {
      {"max_num_seqs", deployment.engine->max_num_seqs.has_value()},
      {"max_model_len", deployment.engine->max_model_len.has_value()}};
  for (const auto& [name, is_stated] : stated) {
    if (is_stated) continue;
    findings.push_back(
        {.rule = std::string(kIndexerNotPlanned),
         .level = "warning",
         .pointer = concat("/deployment/", name),
         .message = concat("the indexer's arenas are not planned, and in no total: ", name, " is not stated"),
         .remedy = concat("add deployment.", name, "; it has no default to guess"),
         .bytes = 0});
  }
  return findings;
}

std::vector<Finding> indexer_findings(const Deployment& deployment,
                                      const std::vector<DeployedIndexer>& plans) {
  using Rule = void (*)(const Facts&, Findings&);
  constexpr Rule kRules[] = {not_planned,       untouched_reserve,        late_allocations,
                             fold_cap_exceeded, supertile_beyond_context, ignored_variables,
                             misleading_texts};
  std::vector<Finding> findings;
  if (!deployment.engine) return findings;
  const Facts facts{deployment, plans};
  for (const Rule rule : kRules) rule(facts, findings);
  return findings;
}

}  // namespace moeplan
