// The one place that knows which Catch2 there is: Debian 12 ships version 2, newer systems version 3.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
