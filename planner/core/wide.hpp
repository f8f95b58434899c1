// 128 bits, for products of two 64-bit integers. Host code alone: integer.hpp stays free of it.
#pragma once

namespace moeplan {

__extension__ using Wide = __int128;

}  // namespace moeplan
