// Catch2 version 2 wants its main compiled once; version 3 brings its own.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include "tests/catch.hpp"
#endif
