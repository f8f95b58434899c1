#include "planner/deployment/part_symbols.hpp"

namespace moeplan {

Symbols part_symbols(const Deployment& d, const RuntimePart& part) {
  Symbols symbols;
  add_input(symbols, "H", *d.model->hidden_size, "hidden size");
  add_input(symbols, "n", *d.model->moe_intermediate_size, "intermediate size of all ranks");
  add_input(symbols, "tp", d.parallel->tp, "ranks");
  define(symbols, "I", "n/tp", "intermediate size of this rank");
  add_input(symbols, "E", *d.model->n_routed_experts, "experts");
  add_input(symbols, "topk", *d.model->num_experts_per_tok, "experts a token is routed to");
  add_input(symbols, "sms", d.device->sm_count, "multiprocessors");
  if (part.kind == PartKind::parity_staging) {
    const auto settings = parse_exl3_settings(*d.engine);
    MOEPLAN_CHECK(settings, "staging of settings that cannot be parsed");
    add_input(symbols, "rows", part.tokens, "staged rows");
    add_input(symbols, "chunk", settings->prefill_chunk, "VLLM_EXL3_PREFILL_CHUNK, rows a call");
    define(symbols, "conc", "sms/8", "experts that run at once");
    return symbols;
  }
  add_input(symbols, "cap", part.tokens, "tokens of the state");
  define(symbols, "rc", "cap*topk", "token-expert pairs");
  define(symbols, "S", "rc+min(rc,E)*(8-1)", "route slots at block 8");
  define(symbols, "fc1_scratch", "2*min(2*I*S, sms*4*8*256)", "");
  define(symbols, "fc2_scratch", "2*min(H*S, sms*4*8*256)", "");
  return symbols;
}

}  // namespace moeplan
