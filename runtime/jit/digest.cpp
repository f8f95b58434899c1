#include "runtime/jit/digest.hpp"

#include <sys/types.h>

// The header leaves its types to the one above.
#include <sha256.h>

namespace moeplan {

std::string sha256_hex(std::string_view bytes) {
  std::string hex(SHA256_DIGEST_STRING_LENGTH, '\0');
  SHA256Data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), hex.data());
  hex.resize(SHA256_DIGEST_STRING_LENGTH - 1);
  return hex;
}

}  // namespace moeplan
