// Field tables of indexer requests: `caps` of an arena, `args` of a call.
#pragma once

#include "cli/io/fields.hpp"
#include "cli/io/request_kinds.hpp"
#include "planner/core/limits.hpp"

namespace moeplan {

// Kinds whose caps are those of an arena that scores rows; a step states what it changes of the caps its call
// implies, so it has them and requires none.
inline constexpr std::uint32_t kPagedCaps = kPagedArena | kFrontDoor | kStepCall;
inline constexpr std::uint32_t kScoringCaps = kPagedCaps | kContiguousArena;
inline constexpr std::uint32_t kContiguousCaps = kContiguousArena | kFrontDoor;

// Numbers with a floor are raised by the planner: no minimum here.
inline constexpr Field kIndexerCapsFields[] = {
    choice<&IndexerCaps::source_layout>("source_layout", kSourceLayoutNames, "paged or contiguous keys")
        .required()
        .only_for(kFrontDoor),
    integer<&IndexerCaps::num_q_heads>("num_q_heads", INT64_MIN, kMaxHeads, "query heads of the indexer")
        .required_by(kScoringCaps & ~kStepCall)
        .only_for(kScoringCaps),
    integer<&IndexerCaps::max_q_rows>("max_q_rows", INT64_MIN, kMaxIndexerRows,
                                      "R: most query rows of a call")
        .required_by(kScoringCaps & ~kStepCall)
        .only_for(kScoringCaps),
    integer<&IndexerCaps::max_page_table_width>("max_page_table_width", INT64_MIN, kMaxIndexerPages,
                                                "W: most pages of a row")
        .required_by(kPagedArena)
        .only_for(kPagedCaps),
    integer<&IndexerCaps::max_k_rows>("max_k_rows", INT64_MIN, kMaxIndexerTokens,
                                      "most keys; a paged source takes it where it has no width")
        .required_by(kContiguousArena)
        .only_for(kScoringCaps),
    integer<&IndexerCaps::top_k>("top_k", INT64_MIN, kMaxIndexerTopK, "K: keys selected a row")
        .required_by((kScoringCaps | kFusedSelector) & ~kStepCall)
        .only_for(kScoringCaps | kFusedSelector),
    integer<&IndexerCaps::page_size>("page_size", INT64_MIN, kMaxPageSize, "tokens of a page (default 64)")
        .only_for(kPagedCaps),
    integer<&IndexerCaps::paged_tile_logits_k_rows>(
        "paged_tile_logits_k_rows", INT64_MIN, kMaxSupertileTokens,
        "supertile in tokens (default 0: the environment's, else 32768 or the context)")
        .only_for(kPagedArena | kStepCall),
    integer<&IndexerCaps::supertile_k>(
        "supertile_k", INT64_MIN, kMaxSupertileTokens,
        "supertile in tokens (default 32768; indexer: 0, the paged default or all keys)")
        .only_for(kContiguousCaps),
    integer<&IndexerCaps::prefill_block_k>("prefill_block_k", INT64_MIN, kMaxIndexerTokens,
                                           "key block of the prefill scorer; contiguous keys take 256 alone")
        .only_for(kContiguousCaps),
    choice<&IndexerCaps::mode>("mode", kIndexerModeNames, "decode (default) or prefill")
        .only_for(kScoringCaps),
    boolean<&IndexerCaps::shared_page_table>("shared_page_table",
                                             "all rows read one page table (default false)")
        .only_for(kPagedCaps),
    choice<&IndexerCaps::route>("route", kRouteChoiceNames, "default auto").only_for(kPagedCaps),
    text<&IndexerCaps::score_mode>("score_mode", "nsa (default) or msa, in any letter case")
        .only_for(kScoringCaps),
    integer<&IndexerCaps::num_idx_heads>("num_idx_heads", INT64_MIN, kMaxIndexHeads,
                                         "score heads of msa (default 1)")
        .only_for(kScoringCaps),
    choice<&IndexerCaps::k_dtype>("k_dtype", kDTypeNames, "type of the packed keys (default float8_e4m3fn)")
        .only_for(kContiguousCaps),
    boolean<&IndexerCaps::reserve_fold>(
        "reserve_fold", "adds the worst-case two-level fold slab to the arena (default false)")
        .only_for(kPagedArena | kFrontDoor),
    integer<&IndexerCaps::max_rows>("max_rows", INT64_MIN, kMaxIndexerRows, "most query rows of a call")
        .required()
        .only_for(kFusedSelector | kPersistentSelector),
    integer<&IndexerCaps::max_width>("max_width", INT64_MIN, kMaxIndexerTokens, "most keys of a row")
        .required()
        .only_for(kFusedSelector),
    integer<&IndexerCaps::max_stride>("max_stride", INT64_MIN, INT64_MAX,
                                      "elements from row to row; changes no size")
        .required()
        .only_for(kPersistentSelector),
    // The engine takes these, and they change no size.
    text<&IndexerCaps::dtype>("dtype", "changes no size").only_for(kPagedCaps),
    text<&IndexerCaps::kv_dtype>("kv_dtype", "changes no size").only_for(kPagedCaps),
    integer<&IndexerCaps::max_batch>("max_batch", INT64_MIN, INT64_MAX, "changes no size")
        .only_for(kPagedCaps),
    boolean<&IndexerCaps::reserve_paged_logits>("reserve_paged_logits", "changes no size")
        .only_for(kPagedCaps),
    integer<&IndexerCaps::paged_logits_k_rows>("paged_logits_k_rows", INT64_MIN, INT64_MAX, "changes no size")
        .only_for(kPagedCaps),
};

// Arguments are not raised to a floor: the planner refuses what a call cannot have.
inline constexpr Field kIndexerArgsFields[] = {
    integer<&IndexerArgs::q_rows>("q_rows", INT64_MIN, kMaxIndexerRows, "live query rows")
        .required()
        .only_for(kFoldCall),
    integer<&IndexerArgs::rows>("rows", INT64_MIN, kMaxIndexerRows, "live query rows")
        .required()
        .only_for(kFusedPolicyCall | kStepCall),
    integer<&IndexerArgs::width>("width", INT64_MIN, kMaxIndexerTokens, "keys of a row")
        .required()
        .only_for(kFusedPolicyCall),
    integer<&IndexerArgs::num_heads>("num_heads", INT64_MIN, kMaxHeads, "query heads of the indexer")
        .required()
        .only_for(kFusedPolicyCall | kStepCall),
    integer<&IndexerArgs::top_k>("top_k", -kMaxIndexerTopK, kMaxIndexerTopK, "K: keys selected a row")
        .required(),
    integer<&IndexerArgs::page_size>("page_size", INT64_MIN, kMaxPageSize, "tokens of a page (default 64)")
        .only_for(kFoldCall),
    integer<&IndexerArgs::page_table_width>("page_table_width", INT64_MIN, kMaxIndexerPages,
                                            "pages of the live page table")
        .required()
        .only_for(kFoldCall | kStepCall),
    integer<&IndexerArgs::supertile_pages>("supertile_pages", INT64_MIN, kMaxSupertileTokens,
                                           "pages of a supertile")
        .required()
        .only_for(kFoldCall),
    integer<&IndexerArgs::num_pages>("num_pages", INT64_MIN, INT64_MAX,
                                     "pages of the key pool; changes nothing")
        .only_for(kStepCall),
    boolean<&IndexerArgs::shared_page_table>("shared_page_table",
                                             "all rows read one page table (default false)")
        .only_for(kStepCall),
    boolean<&IndexerArgs::output_physical_slots>("output_physical_slots",
                                                 "the call answers with slots of the pool (default false)")
        .only_for(kFoldCall | kStepCall),
    boolean<&IndexerArgs::warm>("warm", "the same call ran before (default false)").only_for(kStepCall),
    boolean<&IndexerArgs::real_launch>("real_launch",
                                       "launches reach the compiler and are not listed (default false)")
        .only_for(kStepCall),
    object<&IndexerArgs::caps>("caps", kIndexerCapsFields,
                               "caps of the plan, where they differ from what the call implies")
        .only_for(kStepCall),
};

}  // namespace moeplan
