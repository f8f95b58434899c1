#include "cli/commands/bench_report.hpp"

#include <algorithm>
#include <functional>

#include "cli/commands/skip.hpp"
#include "cli/commands/thousandths.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

Table shapes_table(const BenchMachine& machine, const std::vector<IndexerTiming>& timings) {
  constexpr Audience programs = Audience::programs, people = Audience::people;
  constexpr ColumnKind count = ColumnKind::count;
  Table table;
  table.key = "shapes";
  const auto top_k_of = [](const IndexerTiming& timing) { return timing.shape.top_k; };
  const bool has_top_ks =
      std::ranges::adjacent_find(timings, std::ranges::not_equal_to(), top_k_of) != timings.end();
  table.title = concat("microseconds of a call, logits and ",
                       timings.empty() || has_top_ks ? "top-k" : concat("top-", top_k_of(timings.front())),
                       "; peers were recorded on an ", kPeerGpu, ": ", kPeers);
  table.columns = {{"plan", "PLAN"},
                   {"heads", "HEADS", count},
                   {"rows", "ROWS", count},
                   {"rows_per_request", "GROUP", count},
                   {"context_tokens", "", count, programs},
                   {"context", "CONTEXT", count, people},
                   {"top_k", "TOP-K", count, has_top_ks ? Audience::everyone : programs},
                   {"route", "ROUTE"},
                   {"fold", "FOLD"},
                   {"calls", "", count, programs},
                   {"median_ns", "", count, programs},
                   {"median", "MEDIAN", count, people},
                   {"p10_ns", "", count, programs},
                   {"p90_ns", "", count, programs},
                   {"p10_p90", "P10-P90", count, people},
                   {"logits_ns", "", count, programs},
                   {"logits", "LOGITS", count, people},
                   {"floor_bytes", "", count, programs},
                   {"floor_permille", "", count, programs},
                   {"floor", "FLOOR %", count, people},
                   {"peer_ns", "", count, programs},
                   {"peer_logits_ns", "", count, programs},
                   {"peer", "PEER", count, people},
                   {"peer_permille", "", count, programs},
                   {"of_peer", "OURS/PEER", count, people},
                   {"peer_heads", "", count, programs},
                   {"peer_is_sum", "", ColumnKind::text, programs},
                   {"peer_note", "", ColumnKind::text, people}};
  for (const IndexerTiming& timing : timings) {
    const IndexerShape& shape = timing.shape;
    const IndexerPeer* recorded = find_peer(shape);
    const IndexerPeer* peer = comparable_peer(shape, machine);
    const i64 floor = floor_permille(timing, machine.bandwidth.gb_s);
    const i64 p10 = timing.chain_ns(10), p90 = timing.chain_ns(90);
    table.rows.push_back({{timing.plan_id,
                           shape.heads,
                           shape.rows,
                           shape.rows_per_request,
                           shape.context,
                           tokens_text(shape.context),
                           shape.top_k,
                           std::string(name_of(timing.route)),
                           std::string(name_of(timing.fold)),
                           timing.calls,
                           timing.chain_ns(),
                           microseconds(timing.chain_ns()),
                           p10,
                           p90,
                           concat(microseconds(p10), "-", microseconds(p90)),
                           timing.logits_ns(),
                           microseconds(timing.logits_ns()),
                           floor_bytes(shape),
                           floor,
                           percent(floor),
                           recorded ? Cell(recorded->chain_ns) : Cell(),
                           recorded ? Cell(recorded->logits_ns) : Cell(),
                           recorded ? Cell(microseconds(recorded->chain_ns)) : Cell(),
                           peer ? Cell(peer_permille(timing, *peer)) : Cell(),
                           peer ? Cell(decimal(peer_permille(timing, *peer), 3)) : Cell(),
                           recorded ? Cell(recorded->shape.heads) : Cell(),
                           recorded ? Cell(recorded->is_sum) : Cell(),
                           recorded ? peer_note(shape, *recorded) : std::string()},
                          {}});
  }
  return table;
}

// "faster than the recorded peer at 3 of 4 shapes, 0.571 to 1.020 of its time"
std::string peers_text(const BenchMachine& machine, const std::vector<i64>& ratios) {
  if (machine.gpu != kPeerGpu) return concat("not compared: peers were recorded on an ", kPeerGpu);
  if (ratios.empty()) return "no peer is recorded for these shapes";
  const auto [least, most] = std::ranges::minmax(ratios);
  const i64 faster = std::ranges::count_if(ratios, [](i64 permille) { return permille < 1000; });
  return concat("faster than the recorded peer at ", faster, " of ", ratios.size(),
                ratios.size() == 1 ? " shape, " : " shapes, ", decimal(least, 3),
                least == most ? "" : concat(" to ", decimal(most, 3)), " of its time");
}

Report base_report(const BenchSubject& subject) {
  Report report;
  report.schema = "moeplan.bench/1";
  report.subject = subject.text;
  report.facts = {{"name", subject.name ? Cell(*subject.name) : Cell()}, {"contract", subject.contract}};
  return report;
}

std::string name_in_front(const BenchSubject& subject) {
  return subject.name ? concat(*subject.name, ": ") : "";
}

}  // namespace

const IndexerPeer* comparable_peer(const IndexerShape& shape, const BenchMachine& machine) {
  return machine.gpu == kPeerGpu ? find_peer(shape) : nullptr;
}

Report bench_report(const BenchSubject& subject, const BenchMachine& machine,
                    const std::vector<IndexerTiming>& timings, std::vector<Finding> findings) {
  Report report = base_report(subject);
  report.tables = {shapes_table(machine, timings)};
  std::vector<i64> ratios;
  for (const IndexerTiming& timing : timings) {
    if (const IndexerPeer* peer = comparable_peer(timing.shape, machine))
      ratios.push_back(peer_permille(timing, *peer));
  }
  const i64 failed = std::ranges::count(findings, kNotTimed, &Finding::rule),
            all = failed + std::ssize(timings);
  report.answered_no = failed > 0;
  report.verdict = concat(name_in_front(subject), failed > 0 ? "NOT ALL TIMED" : "TIMED", " · ",
                          failed > 0 ? concat(timings.size(), " of ", all) : std::to_string(all),
                          all == 1 ? " shape" : " shapes", " · ", machine.gpu, ", ", machine.gpu_sms,
                          " SMs · ", peers_text(machine, ratios), subject.rest);
  report.facts.insert(report.facts.end(),
                      {{"skipped", Cell()},
                       {"gpu", machine.gpu},
                       {"gpu_sms", machine.gpu_sms},
                       {"bandwidth_gb_s", machine.bandwidth.gb_s},
                       {"bandwidth_from", std::string(machine.bandwidth.is_measured ? "copy" : "given")},
                       {"peers_gpu", std::string(kPeerGpu)}});
  report.totals = {{"shapes", all},
                   {"timed_shapes", std::ssize(timings)},
                   {"compared_shapes", std::ssize(ratios)},
                   {"faster_shapes", std::ranges::count_if(ratios, [](i64 r) { return r < 1000; })}};
  report.findings = std::move(findings);
  report.notes.push_back(
      "plans are made for this GPU's multiprocessors; every call of a replay reads other pages");
  report.notes.push_back(concat("byte floor: ", kFloorRequestBytes,
                                " B a token of each request, read once, and ", kFloorRowBytes,
                                " B a token of each row, whose logit is written and read, without queries, "
                                "page tables and results, at ",
                                text_of(machine.bandwidth)));
  const auto is_sum = [](const IndexerTiming& timing) {
    const IndexerPeer* peer = find_peer(timing.shape);
    return peer && peer->is_sum;
  };
  if (std::ranges::any_of(timings, is_sum))
    report.notes.push_back("logits + top-k: both of the peer were recorded alone, and are added");
  if (machine.gpu != kPeerGpu)
    report.notes.push_back(concat("no ratio to peers: they were recorded on an ", kPeerGpu,
                                  ", and the GPU here is ", machine.gpu));
  return report;
}

Report skipped_bench_report(const BenchSubject& subject, std::vector<Finding> findings, const Error& why) {
  Report report = base_report(subject);
  report.findings = std::move(findings);
  report.verdict =
      concat(name_in_front(subject), "SKIPPED · nothing was run: ", skip_reason(why), subject.rest);
  report.tables = {shapes_table({}, {})};
  add_skip(report, why);
  report.facts.insert(report.facts.end(), {{"gpu", Cell()},
                                           {"gpu_sms", Cell()},
                                           {"bandwidth_gb_s", Cell()},
                                           {"bandwidth_from", Cell()},
                                           {"peers_gpu", std::string(kPeerGpu)}});
  report.totals = {
      {"shapes", i64{0}}, {"timed_shapes", i64{0}}, {"compared_shapes", i64{0}}, {"faster_shapes", i64{0}}};
  return report;
}

}  // namespace moeplan
