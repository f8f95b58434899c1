#include "runtime/bench/rates.hpp"

#include "planner/core/text.hpp"

namespace moeplan {

std::string text_of(const Bandwidth& bandwidth) {
  return concat(grouped(bandwidth.gb_s), " GB/s, ",
                bandwidth.is_measured ? "measured: a device-to-device copy, read and written"
                                      : "given: --bandwidth-gb-s");
}

std::string text_of(const FlopRate& rate) {
  const i64 tenths = rounded_div(rate.per_ns, 100);
  return concat(grouped(tenths / 10), ".", tenths % 10, " TFLOP/s, ",
                rate.is_measured ? "measured: mma.sync of halves out of registers" : "given: --flop-rate");
}

}  // namespace moeplan
