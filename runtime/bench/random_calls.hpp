#pragma once

#include "runtime/indexer/random_calls.hpp"
