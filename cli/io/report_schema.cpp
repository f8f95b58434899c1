// The JSON Schemas of reports: one table of forms a kind, a row a member. Consumers must ignore what they do
// not know, so objects stay open; what is listed is always there.
#include <algorithm>
#include <span>

#include "cli/io/baseline_file.hpp"
#include "cli/io/json_writer.hpp"
#include "cli/io/policy_file.hpp"
#include "cli/io/schema.hpp"
#include "planner/core/report.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// `list` holds values of any type; `scalar` is an integer, a boolean or a text.
enum class Form { text, integer, boolean, sizes, list, scalar };

struct MemberForm {
  std::string_view key;
  Form form = Form::text;
  bool may_be_null = false;
};

struct TableForm {
  std::string_view key;
  std::span<const MemberForm> columns;
  const TableForm* details = nullptr;  // the tables behind a row
  bool always = true;                  // else only where there is something to tell
  bool by_rank = false;                // has rank_0_lo, rank_0_hi, … where ranks differ
  bool by_choice = false;              // has further members of one value each, that the command line names
};

struct ReportForm {
  std::string_view name;
  std::string_view title;
  std::span<const MemberForm> facts;
  std::span<const MemberForm> totals;  // none: named by plans, integers
  std::span<const TableForm> tables;
  std::span<const MemberForm> optional_facts = {};  // there where they are known
};

constexpr MemberForm text(std::string_view key) { return {key, Form::text}; }
constexpr MemberForm integer(std::string_view key) { return {key, Form::integer}; }
constexpr MemberForm boolean(std::string_view key) { return {key, Form::boolean}; }
constexpr MemberForm sizes(std::string_view key) { return {key, Form::sizes}; }
constexpr MemberForm list(std::string_view key) { return {key, Form::list}; }
constexpr MemberForm scalar(std::string_view key) { return {key, Form::scalar}; }
constexpr MemberForm or_null(MemberForm form) { return {form.key, form.form, true}; }

constexpr MemberForm kNames[] = {or_null(text("name")), or_null(text("contract"))};

constexpr MemberForm kTensorColumns[] = {text("name"),      text("dtype"),       text("region"),
                                         sizes("shape"),    integer("elements"), text("formula"),
                                         integer("offset"), integer("bytes"),    text("bound")};
constexpr TableForm kTensors = {"tensors", kTensorColumns};
constexpr MemberForm kArenaColumns[] = {text("id"),
                                        text("kind"),
                                        text("contract"),
                                        text("implementation"),
                                        or_null(text("weight_layout")),
                                        integer("max_tokens"),
                                        or_null(integer("block_m")),
                                        boolean("pinned"),
                                        integer("routed_rows"),
                                        or_null(integer("route_slots")),
                                        integer("route_bytes"),
                                        integer("core_bytes"),
                                        integer("bytes")};
constexpr MemberForm kMixedTensorColumns[] = {text("name"), text("dtype"), sizes("shape"), text("formula"),
                                              integer("bytes")};
constexpr TableForm kMixedTensors = {"tensors", kMixedTensorColumns, nullptr, false};
constexpr MemberForm kMixedColumns[] = {text("part"), integer("tokens"), or_null(integer("block_m")),
                                        integer("bytes")};
constexpr MemberForm kIndexerColumns[] = {text("id"),
                                          text("kind"),
                                          text("contract"),
                                          text("route"),
                                          or_null(integer("rows")),
                                          or_null(integer("pages")),
                                          or_null(integer("heads")),
                                          or_null(integer("top_k")),
                                          or_null(integer("supertile_tokens")),
                                          integer("bytes")};
constexpr MemberForm kLateColumns[] = {
    text("id"),      text("what"), integer("rows"), integer("context_tokens"), or_null(integer("slices")),
    integer("bytes")};
constexpr MemberForm kPlanTotals[] = {integer("per_rank_bytes"), integer("indexer_per_rank_bytes"),
                                      integer("late_per_rank_bytes")};
constexpr TableForm kPlanTables[] = {{"arenas", kArenaColumns, &kTensors, false},
                                     {"mixed_buffers", kMixedColumns, &kMixedTensors, false},
                                     {"indexer_arenas", kIndexerColumns, &kTensors, false},
                                     {"late_allocations", kLateColumns, nullptr, false}};

constexpr MemberForm kRouteColumns[] = {text("id"), text("route"), boolean("taken"),
                                        or_null(integer("bytes")), text("why")};
constexpr MemberForm kSlackColumns[] = {text("id"), text("name"), text("formula"), integer("bytes"),
                                        text("touched")};
constexpr MemberForm kStepColumns[] = {text("id"),
                                       or_null(integer("chunks")),
                                       or_null(integer("launches")),
                                       or_null(integer("allocated_bytes")),
                                       or_null(integer("env_reads")),
                                       or_null(integer("env_reads_per_step")),
                                       text("variables")};
// A config without an indexer is answered in words alone.
constexpr MemberForm kExplainFacts[] = {text("bound"), text("source"), text("original")};
constexpr MemberForm kInputColumns[] = {text("symbol"), integer("value"), text("meaning")};
constexpr MemberForm kFormulaColumns[] = {text("symbol"),
                                          text("expression"),
                                          text("substituted"),
                                          integer("value"),
                                          or_null(integer("unit_bytes")),
                                          or_null(integer("bytes")),
                                          text("decided_by"),
                                          text("meaning")};
constexpr MemberForm kBlockColumns[] = {integer("block_m"), or_null(integer("from_tokens")),
                                        or_null(integer("to_tokens")), boolean("reachable")};
constexpr MemberForm kTokenCountColumns[] = {integer("tokens"), integer("bytes")};
constexpr MemberForm kNeighbourColumns[] = {text("change"),
                                            or_null(integer("bytes")),
                                            or_null(integer("difference_bytes")),
                                            or_null(integer("arena_bytes")),
                                            text("knob"),
                                            text("reason")};
constexpr TableForm kExplainTables[] = {{"routes", kRouteColumns, nullptr, false},
                                        {"tensors", kSlackColumns, nullptr, false},
                                        {"steps", kStepColumns, nullptr, false},
                                        {"inputs", kInputColumns, nullptr, false},
                                        {"formulas", kFormulaColumns, nullptr, false},
                                        {"sum_inputs", kInputColumns, nullptr, false},
                                        {"sum", kFormulaColumns, nullptr, false},
                                        {"block_inputs", kInputColumns, nullptr, false},
                                        {"block_formulas", kFormulaColumns, nullptr, false},
                                        {"blocks", kBlockColumns, nullptr, false},
                                        {"token_counts", kTokenCountColumns, nullptr, false},
                                        {"neighbours", kNeighbourColumns, nullptr, false}};

constexpr MemberForm kKnownDeviceColumns[] = {text("name"),
                                              or_null(text("compute_capability")),
                                              integer("sm_count"),
                                              or_null(integer("shared_memory_per_block_optin")),
                                              or_null(integer("memory_bandwidth_gb_s")),
                                              or_null(text("memory")),
                                              or_null(text("source"))};

constexpr MemberForm kCapacityFacts[] = {or_null(text("name")), text("contract"), text("fit"),
                                         boolean("moe_modelled"), or_null(text("bottleneck"))};
constexpr MemberForm kCapacityTotals[] = {
    or_null(integer("scratch_bytes")),  or_null(integer("kv_bytes_lo")),  or_null(integer("kv_bytes_hi")),
    or_null(integer("kv_blocks_lo")),   or_null(integer("kv_blocks_hi")), or_null(integer("kv_tokens_lo")),
    or_null(integer("kv_tokens_hi")),   integer("kv_bytes_per_token"),    integer("kv_page_bytes"),
    or_null(integer("kv_bytes_needed"))};
constexpr MemberForm kInsideColumns[] = {text("name"), or_null(integer("kv_tokens")), text("kind"),
                                         text("source")};
constexpr MemberForm kAfterColumns[] = {text("name"), text("kind"), text("source")};
constexpr MemberForm kCheckColumns[] = {text("question"), text("answer"), or_null(integer("spare_lo")),
                                        or_null(integer("spare_hi"))};
constexpr MemberForm kWhatIfColumns[] = {text("change"), integer("bytes"), or_null(integer("kv_tokens")),
                                         text("effect")};
constexpr MemberForm kChoiceColumns[] = {integer("capacity"),           integer("scratch_bytes"),
                                         integer("gained_bytes"),       integer("gained_kv_tokens"),
                                         integer("launches_per_layer"), integer("tail_rows")};
constexpr MemberForm kLargestColumns[] = {text("setting"),
                                          or_null(integer("now")),
                                          or_null(integer("certain")),
                                          or_null(integer("possible")),
                                          text("unit"),
                                          text("limit")};
constexpr MemberForm kBufferColumns[] = {text("part"),   text("name"),    text("dtype"),
                                         sizes("shape"), text("formula"), integer("bytes")};
constexpr MemberForm kKeyColumns[] = {text("runtime"), text("form"), text("field"), text("value")};
constexpr MemberForm kDeviceColumns[] = {integer("index"), text("name"), integer("total_bytes"),
                                         integer("free_bytes")};
constexpr TableForm kCapacityTables[] = {{"inside_profile", kInsideColumns, nullptr, true, true},
                                         {"after_profile", kAfterColumns, nullptr, true, true},
                                         {"checks", kCheckColumns},
                                         {"what_if", kWhatIfColumns, nullptr, false},
                                         {"prefill_capacities", kChoiceColumns, nullptr, false},
                                         {"largest", kLargestColumns},
                                         {"buffers", kBufferColumns, nullptr, false},
                                         {"runtime_keys", kKeyColumns, nullptr, false},
                                         {"devices", kDeviceColumns, nullptr, false}};

constexpr MemberForm kCompileFacts[] = {or_null(text("name")), or_null(text("contract")), boolean("builds"),
                                        text("nvrtc")};
constexpr MemberForm kCompileTotals[] = {integer("kernels"), integer("failed"), integer("spilling"),
                                         integer("unfit"), integer("most_shared_bytes")};
constexpr MemberForm kKernelColumns[] = {text("architecture"),
                                         text("kernel"),
                                         text("plans"),
                                         integer("threads"),
                                         integer("registers"),
                                         integer("spill_bytes"),
                                         integer("shared_bytes"),
                                         integer("shared_limit_bytes"),
                                         integer("blocks_per_sm"),
                                         or_null(integer("resident_grid")),
                                         text("variant"),
                                         integer("cubin_bytes"),
                                         text("cubin_sha256"),
                                         text("source_sha256")};
constexpr MemberForm kLogColumns[] = {text("kernel"), text("text")};
constexpr TableForm kCompileTables[] = {{"kernels", kKernelColumns},
                                        {"compiler_log", kLogColumns, nullptr, false}};

constexpr MemberForm kValidateFacts[] = {
    or_null(text("name")),        or_null(text("contract")),     or_null(boolean("valid")),
    or_null(text("skipped")),     or_null(text("gpu")),          or_null(integer("gpu_sms")),
    or_null(boolean("emulated")), or_null(text("weights_file")), or_null(integer("weights_layer"))};
constexpr MemberForm kValidateTotals[] = {
    integer("plans"),          integer("valid_plans"),       integer("plans_without_kernels"),
    integer("launches"),       integer("launches_left_out"), integer("failed_launches"),
    integer("shrinks_caught"), integer("shrinks_missed"),    integer("shrinks_not_observable")};
// Errors are texts such as "4.10e-04".
constexpr MemberForm kValidatedPlanColumns[] = {text("id"),
                                                integer("capacity"),
                                                integer("planned_sms"),
                                                integer("planned_bytes"),
                                                integer("executed_sms"),
                                                integer("executed_bytes"),
                                                integer("launches"),
                                                integer("launches_left_out"),
                                                text("relative_l2"),
                                                text("largest_l2"),
                                                text("one_minus_cosine"),
                                                or_null(integer("bits")),
                                                or_null(integer("weights_rank")),
                                                or_null(integer("weights_ranks")),
                                                text("weights"),
                                                boolean("valid")};
constexpr MemberForm kHighWaterColumns[] = {
    text("plan"),           text("tensor"), integer("planned_bytes"), integer("touched_bytes"),
    integer("slack_bytes"), text("use")};
constexpr MemberForm kLiveCountColumns[] = {
    text("plan"),        text("guards"),       integer("tokens"),        integer("block_m"),
    text("relative_l2"), text("worst_row_l2"), text("one_minus_cosine"), boolean("passes"),
    text("failed"),      text("routings")};
constexpr MemberForm kShrinkColumns[] = {text("plan"),           text("shape"),   text("tensor"),
                                         integer("taken_bytes"), text("outcome"), boolean("refused"),
                                         boolean("guard_hit"),   text("how")};
constexpr MemberForm kSkipColumns[] = {text("reason")};
constexpr TableForm kValidateTables[] = {{"plans", kValidatedPlanColumns},
                                         {"tensors", kHighWaterColumns},
                                         {"live_counts", kLiveCountColumns},
                                         {"shrinks", kShrinkColumns},
                                         {"skips", kSkipColumns, nullptr, false}};

constexpr MemberForm kBenchFacts[] = {or_null(text("name")),           text("contract"),
                                      or_null(text("skipped")),        or_null(text("gpu")),
                                      or_null(integer("gpu_sms")),     or_null(integer("bandwidth_gb_s")),
                                      or_null(text("bandwidth_from")), text("peers_gpu")};
constexpr MemberForm kBenchTotals[] = {integer("shapes"), integer("timed_shapes"), integer("compared_shapes"),
                                       integer("faster_shapes")};
constexpr MemberForm kBenchColumns[] = {text("plan"),
                                        integer("heads"),
                                        integer("rows"),
                                        integer("rows_per_request"),
                                        integer("context_tokens"),
                                        integer("top_k"),
                                        text("route"),
                                        text("fold"),
                                        integer("calls"),
                                        integer("median_ns"),
                                        integer("p10_ns"),
                                        integer("p90_ns"),
                                        integer("logits_ns"),
                                        integer("floor_bytes"),
                                        integer("floor_permille"),
                                        or_null(integer("peer_ns")),
                                        or_null(integer("peer_logits_ns")),
                                        or_null(integer("peer_permille")),
                                        or_null(integer("peer_heads")),
                                        or_null(boolean("peer_is_sum"))};
constexpr TableForm kBenchTables[] = {{"shapes", kBenchColumns}, {"skips", kSkipColumns, nullptr, false}};

constexpr MemberForm kBenchMoeFacts[] = {or_null(text("name")),
                                         text("contract"),
                                         or_null(text("skipped")),
                                         or_null(text("gpu")),
                                         or_null(integer("gpu_sms")),
                                         or_null(integer("bandwidth_gb_s")),
                                         or_null(text("bandwidth_from")),
                                         or_null(integer("decode_weights_per_ns")),
                                         or_null(text("decode_from")),
                                         or_null(integer("flops_per_ns")),
                                         or_null(text("flops_from")),
                                         or_null(integer("sm_mhz_lowest")),
                                         or_null(integer("sm_mhz_highest")),
                                         text("peers_gpu"),
                                         or_null(integer("chunk_tokens")),
                                         or_null(integer("moe_layers"))};
constexpr MemberForm kBenchMoeTotals[] = {integer("timed_token_counts"), integer("timed_capacities"),
                                          integer("failed")};
constexpr MemberForm kBenchMoeTimingColumns[] = {text("executor"),
                                                 text("contract"),
                                                 text("plan"),
                                                 integer("capacity"),
                                                 integer("tokens"),
                                                 integer("distinct_experts"),
                                                 integer("calls"),
                                                 integer("layers"),
                                                 integer("median_ns"),
                                                 integer("p10_ns"),
                                                 integer("p90_ns"),
                                                 integer("bytes"),
                                                 integer("weights"),
                                                 integer("flops"),
                                                 integer("gb_s"),
                                                 integer("gflop_s"),
                                                 integer("byte_floor_permille"),
                                                 or_null(integer("decode_floor_permille")),
                                                 or_null(integer("flop_floor_permille")),
                                                 or_null(integer("sm_mhz"))};
constexpr MemberForm kComparisonColumns[] = {integer("tokens"),   text("executor"),     text("against"),
                                             text("verdict"),     integer("ratio_ppm"), integer("low_ppm"),
                                             integer("high_ppm"), integer("pairs")};
constexpr MemberForm kMoePeerColumns[] = {integer("tokens"),  text("peer"),     text("reads"),
                                          integer("peer_ns"), text("executor"), integer("permille")};
constexpr MemberForm kCapacityTimingColumns[] = {text("executor"),
                                                 text("contract"),
                                                 text("plan"),
                                                 integer("capacity"),
                                                 integer("launches"),
                                                 integer("tail_tokens"),
                                                 integer("median_ns"),
                                                 integer("p10_ns"),
                                                 integer("p90_ns"),
                                                 integer("arena_bytes"),
                                                 integer("scratch_bytes"),
                                                 or_null(integer("gained_kv_tokens")),
                                                 or_null(integer("all_layers_ns")),
                                                 text("verdict"),
                                                 integer("ratio_ppm"),
                                                 integer("low_ppm"),
                                                 integer("high_ppm"),
                                                 integer("pairs")};
constexpr TableForm kBenchMoeTables[] = {{"timings", kBenchMoeTimingColumns},
                                         {"comparisons", kComparisonColumns},
                                         {"peers", kMoePeerColumns},
                                         {"capacities", kCapacityTimingColumns},
                                         {"skips", kSkipColumns, nullptr, false}};

constexpr MemberForm kCacheFacts[] = {text("folder"), text("action")};
constexpr MemberForm kCacheEntryColumns[] = {text("id"),    text("kernel"),   text("architecture"),
                                             text("nvrtc"), integer("bytes"), text("variant")};
constexpr TableForm kCacheTables[] = {{"entries", kCacheEntryColumns, nullptr, false}};

constexpr MemberForm kProfileColumns[] = {integer("index"),
                                          text("name"),
                                          text("compute_capability"),
                                          integer("sm_count"),
                                          integer("shared_memory_per_block_optin"),
                                          integer("shared_memory_per_sm"),
                                          integer("l2_bytes"),
                                          integer("total_bytes"),
                                          text("shipped_as")};
constexpr MemberForm kLevelColumns[] = {text("stage"), boolean("ready"), text("with")};
constexpr TableForm kDevicesTables[] = {{"devices", kKnownDeviceColumns},
                                        {"gpus", kDeviceColumns, nullptr, false},
                                        {"profiles", kProfileColumns, nullptr, false},
                                        {"levels", kLevelColumns, nullptr, false}};

constexpr MemberForm kReconcileTotals[] = {integer("matches"), integer("mismatches"),
                                           integer("not_derivable")};
constexpr MemberForm kLineColumns[] = {text("what"), or_null(text("predicted")), text("logged"),
                                       text("unit"), or_null(boolean("match")),  integer("line"),
                                       text("rule"), or_null(text("why"))};
constexpr TableForm kReconcileTables[] = {{"lines", kLineColumns}};

constexpr MemberForm kAuditFacts[] = {or_null(text("name")), text("contract"), or_null(boolean("sound")),
                                      or_null(text("assume_blocks"))};
constexpr MemberForm kAuditTotals[] = {integer("never_touched_bytes"),
                                       or_null(integer("never_touched_kv_tokens"))};
constexpr MemberForm kAuditTensorColumns[] = {text("name"),
                                              integer("planned_bytes"),
                                              integer("needed_bytes"),
                                              integer("needed_at"),
                                              or_null(integer("slack_bytes")),
                                              or_null(integer("most_short_bytes")),
                                              or_null(integer("short_at")),
                                              text("verdict"),
                                              or_null(text("consequence"))};
// Plans whose launches are not modelled have no tensors.
constexpr TableForm kAuditTensors = {"tensors", kAuditTensorColumns, nullptr, false};
constexpr MemberForm kAuditPlanColumns[] = {text("id"),
                                            text("contract"),
                                            integer("capacity"),
                                            or_null(text("expert_map")),
                                            or_null(text("blocks")),
                                            integer("reserved_bytes"),
                                            or_null(integer("slack_bytes")),
                                            or_null(integer("counter_example")),
                                            or_null(boolean("exhaustive")),
                                            or_null(boolean("sound"))};
constexpr MemberForm kUnusedColumns[] = {
    text("plan"), text("kind"), text("tensor"), integer("bytes"), or_null(integer("kv_tokens")), text("why")};
constexpr TableForm kAuditTables[] = {{"plans", kAuditPlanColumns, &kAuditTensors},
                                      {"never_touched", kUnusedColumns}};

constexpr MemberForm kLaunchesFacts[] = {or_null(text("name")), text("contract"),
                                         integer("shared_memory_per_block_optin")};
constexpr MemberForm kLaunchesTotals[] = {integer("keys"), integer("cold_keys"),
                                          integer("plans_not_modelled")};
constexpr MemberForm kRunColumns[] = {
    integer("first_tokens"),       integer("last_tokens"),       integer("keys"),
    integer("first_max_m_blocks"), integer("last_max_m_blocks"), sizes("tiles"),
    integer("blocks_per_sm"),      boolean("single_token"),      boolean("prewarmed"),
    boolean("profiled"),           boolean("captured"),          boolean("cold")};
constexpr TableForm kRuns = {"runs", kRunColumns, nullptr, false};
constexpr MemberForm kLaunchPlanColumns[] = {text("id"),
                                             integer("capacity"),
                                             or_null(integer("block_m")),
                                             or_null(sizes("pin")),
                                             text("live"),
                                             integer("live_tokens"),
                                             or_null(integer("prewarmed_tokens")),
                                             or_null(integer("keys")),
                                             or_null(integer("cold_keys")),
                                             or_null(integer("compiled_with_plan")),
                                             or_null(text("failure"))};
constexpr MemberForm kLaunchChoiceColumns[] = {integer("max_num_batched_tokens"),
                                               integer("capacity"),
                                               or_null(integer("cold_keys")),
                                               or_null(integer("keys")),
                                               integer("launches"),
                                               integer("scratch_bytes"),
                                               or_null(integer("gained_kv_tokens")),
                                               boolean("on_front"),
                                               boolean("configured")};
constexpr TableForm kLaunchesTables[] = {
    {"plans", kLaunchPlanColumns, &kRuns},
    {"capacities", kLaunchChoiceColumns, nullptr, false},
    {"schedulers", std::span(kLaunchChoiceColumns).first(7), nullptr, false}};

constexpr MemberForm kLaunchKeyFacts[] = {text("plan"),
                                          integer("capacity"),
                                          integer("block_size_m"),
                                          integer("live_tokens"),
                                          list("key"),
                                          integer("max_m_blocks"),
                                          sizes("tiles"),
                                          integer("blocks_per_sm"),
                                          integer("shared_words"),
                                          boolean("prewarmed"),
                                          boolean("reached"),
                                          or_null(boolean("cold"))};
constexpr MemberForm kElementColumns[] = {text("index"), text("name"), scalar("value"), scalar("prewarmed"),
                                          boolean("equal")};
constexpr TableForm kLaunchKeyTables[] = {{"elements", kElementColumns}};

constexpr MemberForm kChangeTotals[] = {text("what"), or_null(integer("before")), or_null(integer("after")),
                                        or_null(integer("change"))};
constexpr MemberForm kChangeColumns[] = {text("arena"), text("tensor"), or_null(integer("before")),
                                         or_null(integer("after")), or_null(integer("change"))};
constexpr MemberForm kSettingColumns[] = {text("pointer"), or_null(text("before")), or_null(text("after"))};
constexpr MemberForm kDiffFacts[] = {text("before"), text("after"), boolean("differs")};
constexpr MemberForm kDiffTotals[] = {integer("before_bytes"), integer("after_bytes"),
                                      integer("growth_bytes"), or_null(integer("growth_kv_tokens"))};
constexpr TableForm kDiffTables[] = {
    {"totals_change", kChangeTotals}, {"changes", kChangeColumns}, {"settings", kSettingColumns}};

constexpr MemberForm kCheckFacts[] = {or_null(text("name")), text("contract"), text("policy"),
                                      or_null(text("baseline")), boolean("passes")};
constexpr MemberForm kCheckTotals[] = {integer("errors"),
                                       integer("warnings"),
                                       integer("notes"),
                                       integer("per_rank_bytes"),
                                       integer("indexer_per_rank_bytes"),
                                       or_null(integer("kv_tokens")),
                                       or_null(integer("cold_keys")),
                                       or_null(integer("growth_bytes")),
                                       or_null(integer("growth_kv_tokens"))};
// There where something changed against the baseline.
constexpr TableForm kCheckTables[] = {{"totals_change", kChangeTotals, nullptr, false},
                                      {"changes", kChangeColumns, nullptr, false},
                                      {"settings", kSettingColumns, nullptr, false}};
constexpr MemberForm kChecksTotals[] = {integer("configs"), integer("not_checked"), integer("failed"),
                                        integer("errors"),  integer("warnings"),    integer("notes")};
constexpr MemberForm kChecksColumns[] = {text("config"), integer("per_rank_bytes"), integer("errors"),
                                         integer("warnings"), boolean("passes")};
constexpr TableForm kChecksTables[] = {{"checks", kChecksColumns}};

constexpr MemberForm kBaselineFacts[] = {text("digest")};
constexpr MemberForm kBaselineTotals[] = {integer("configs")};
constexpr MemberForm kBaselineColumns[] = {text("config"),
                                           text("contract"),
                                           integer("moe_bytes"),
                                           integer("indexer_bytes"),
                                           or_null(integer("kv_tokens")),
                                           or_null(integer("cold_keys"))};
constexpr MemberForm kHistoryColumns[] = {text("date"), text("reason")};
constexpr TableForm kBaselineTables[] = {{"configs", kBaselineColumns}, {"history", kHistoryColumns}};

constexpr MemberForm kSweepFacts[] = {or_null(text("name")), or_null(text("contract")),
                                      or_null(text("arena"))};
constexpr MemberForm kSweepTotals[] = {integer("points"), integer("failed_points"),
                                       or_null(integer("configured_bytes")),
                                       or_null(integer("kv_bytes_per_token"))};
constexpr MemberForm kPointColumns[] = {or_null(text("error")), boolean("configured")};
// Axes and columns; axes and arenas.
constexpr TableForm kSweepTables[] = {{.key = "points", .columns = kPointColumns, .by_choice = true},
                                      {.key = "arenas", .columns = {}, .always = false, .by_choice = true}};

constexpr MemberForm kConfigReportTotals[] = {integer("stated"), integer("defaults")};
constexpr MemberForm kFieldColumns[] = {text("pointer"), text("value"), text("kind"), text("from")};
constexpr TableForm kConfigReportTables[] = {{"fields", kFieldColumns}};

constexpr ReportForm kReports[] = {
    {"plan", "what moeplan size answers", kNames, kPlanTotals, kPlanTables},
    {"explain", "what moeplan explain answers", {}, {}, kExplainTables, kExplainFacts},
    {"capacity", "what moeplan capacity answers", kCapacityFacts, kCapacityTotals, kCapacityTables},
    {"audit", "what moeplan audit answers", kAuditFacts, kAuditTotals, kAuditTables},
    {"launches", "what moeplan launches answers", kLaunchesFacts, kLaunchesTotals, kLaunchesTables},
    {"launch_key", "what moeplan launches --live-tokens answers", kLaunchKeyFacts, {}, kLaunchKeyTables},
    {"compile", "what moeplan compile answers", kCompileFacts, kCompileTotals, kCompileTables},
    {"validate", "what moeplan validate answers", kValidateFacts, kValidateTotals, kValidateTables},
    {"bench", "what moeplan bench indexer answers", kBenchFacts, kBenchTotals, kBenchTables},
    {"bench_moe", "what moeplan bench moe answers", kBenchMoeFacts, kBenchMoeTotals, kBenchMoeTables},
    {"cache", "what moeplan cache answers", kCacheFacts, {}, kCacheTables},
    {"check", "what moeplan check answers of a config", kCheckFacts, kCheckTotals, kCheckTables},
    {"checks", "what moeplan check answers of several configs", {}, kChecksTotals, kChecksTables},
    {"diff", "what moeplan diff answers", kDiffFacts, kDiffTotals, kDiffTables},
    {"baseline_report", "what moeplan baseline answers", kBaselineFacts, kBaselineTotals, kBaselineTables},
    {"sweep", "what moeplan sweep answers", kSweepFacts, kSweepTotals, kSweepTables},
    {"reconcile", "what moeplan reconcile answers", kNames, kReconcileTotals, kReconcileTables},
    {"devices", "what moeplan devices answers", {}, {}, kDevicesTables},
    {"config_report", "what --explain-config answers", {}, kConfigReportTotals, kConfigReportTables},
};

constexpr MemberForm kFindingMembers[] = {text("rule"),    text("level"),    integer("bytes"),
                                          text("pointer"), text("message"),  text("remedy"),
                                          integer("line"), integer("column")};
constexpr MemberForm kErrorMembers[] = {text("code"),      text("pointer"), text("file"), integer("line"),
                                        integer("column"), text("message"), text("help")};

constexpr std::string_view kReportsName = "reports", kErrorsName = "errors";

void write_type(JsonWriter& json, const MemberForm& member) {
  if (member.form == Form::scalar) {
    std::vector<std::string_view> words = {"integer", "boolean", "string"};
    if (member.may_be_null) words.emplace_back("null");
    json.key("type").inline_array(words);
    return;
  }
  constexpr std::string_view kWords[] = {"string", "integer", "boolean", "array", "array"};
  const std::string_view word = kWords[static_cast<int>(member.form)];
  if (member.may_be_null)
    json.key("type").inline_array(std::initializer_list<std::string_view>{word, "null"});
  else
    json.member("type", word);
  if (member.form == Form::sizes) json.key("items").begin_object().member("type", "integer").end_object();
}

void write_members(JsonWriter& json, std::span<const MemberForm> members) {
  for (const MemberForm& member : members) {
    json.key(member.key).begin_object();
    if (member.key == "level") json.key("enum").inline_array(kLevels);
    write_type(json, member);
    json.end_object();
  }
}

void write_required(JsonWriter& json, std::span<const MemberForm> members,
                    std::vector<std::string_view> others = {}) {
  for (const MemberForm& member : members) others.push_back(member.key);
  json.key("required").inline_array(others);
}

void write_table(JsonWriter& json, const TableForm& table) {
  json.key(table.key).begin_object().member("type", "array");
  json.key("items").begin_object().member("type", "object");
  json.key("properties").begin_object();
  write_members(json, table.columns);
  if (table.details) write_table(json, *table.details);
  json.end_object();
  if (table.by_rank) {
    json.key("patternProperties").begin_object().key("^(rank_[0-9]+_)?(lo|hi)$").begin_object();
    write_type(json, or_null(integer("")));
    json.end_object().end_object();
  }
  if (table.by_choice) {
    json.key("additionalProperties").begin_object();
    write_type(json, or_null(scalar("")));
    json.end_object();
  }
  std::vector<std::string_view> required;
  if (table.details && table.details->always) required.push_back(table.details->key);
  write_required(json, table.columns, std::move(required));
  json.end_object().end_object();
}

void begin_schema(JsonWriter& json, std::string_view name, std::string_view title) {
  json.begin_object();
  json.member("$schema", "https://json-schema.org/draft/2020-12/schema");
  json.member("$id", concat("moeplan.", name, ".v1.schema.json"));
  json.member("title", concat(title, ", moeplan.", name, "/1"));
  json.member("type", "object");
  json.key("properties").begin_object();
  json.key("schema").begin_object().member("const", concat("moeplan.", name, "/1")).end_object();
}

std::string report_schema(const ReportForm& form) {
  std::string out;
  JsonWriter json(out, JsonWriter::Style::indented);
  begin_schema(json, form.name, form.title);
  json.key("verdict").begin_object().member("type", "string").end_object();
  // The names of an answer in words may be missing.
  write_members(json, form.facts.empty() ? std::span<const MemberForm>(kNames) : form.facts);
  write_members(json, form.optional_facts);
  json.key("totals").begin_object().member("type", "object");
  if (form.totals.empty()) {
    json.key("additionalProperties").begin_object().member("type", "integer").end_object();
  } else {
    json.key("properties").begin_object();
    write_members(json, form.totals);
    json.end_object();
    write_required(json, form.totals);
  }
  json.end_object();
  for (const TableForm& table : form.tables) write_table(json, table);
  write_table(json, {"findings", kFindingMembers});
  json.key("notes").begin_object().member("type", "array");
  json.key("items").begin_object().member("type", "string").end_object().end_object();
  json.end_object();
  std::vector<std::string_view> required = {"schema", "verdict", "totals", "findings", "notes"};
  for (const TableForm& table : form.tables) {
    if (table.always) required.push_back(table.key);
  }
  write_required(json, form.facts, std::move(required));
  json.end_object();
  return out + "\n";
}

// Several reports in one object, or what stood in the way of some.
std::string container_schema(std::string_view name) {
  const bool has_errors = name == kErrorsName;
  std::string out;
  JsonWriter json(out, JsonWriter::Style::indented);
  begin_schema(json, name, has_errors ? "mistakes of configs, and reports of the others" : "several reports");
  if (has_errors) write_table(json, {"errors", kErrorMembers});
  json.key("reports").begin_object().member("type", "array").member("minItems", i64{1});
  // Each fits the schema that its own "schema" names.
  json.key("items").begin_object().member("type", "object");
  json.key("properties").begin_object();
  json.key("schema").begin_object().member("type", "string").end_object().end_object();
  json.key("required").inline_array(std::initializer_list<std::string_view>{"schema", "verdict"});
  json.end_object().end_object();
  json.end_object();
  json.key("required")
      .inline_array(
          std::initializer_list<std::string_view>{"schema", has_errors ? kErrorsName : kReportsName});
  json.end_object();
  return out + "\n";
}

}  // namespace

std::vector<std::string_view> schema_names() {
  std::vector<std::string_view> names = {"config", "policy", "baseline"};
  for (const ReportForm& form : kReports) names.push_back(form.name);
  names.insert(names.end(), {kReportsName, kErrorsName});
  return names;
}

std::string schema_named(std::string_view name) {
  if (name == "config") return config_schema();
  if (name == "policy") return input_schema(name, "policy of moeplan check", policy_fields());
  if (name == "baseline") return input_schema(name, "baseline of moeplan check", baseline_fields());
  if (name == kReportsName || name == kErrorsName) return container_schema(name);
  const auto* form = std::ranges::find(kReports, name, &ReportForm::name);
  return form == std::end(kReports) ? "" : report_schema(*form);
}

}  // namespace moeplan
