// The pages of a call: which rows share them, how many are live, and which of them a block takes.
#pragma once

#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/selection.cuh"

namespace moeplan {

// A page of a group, and how many the group has.
struct Place {
  int group;
  int page;
  int pages;
};

// Groups of up to `tile_rows` rows of one request: what a block scores at a time.
class Groups {
 public:
  Groups(const IndexerSource& source, int tile_rows)
      : source_(source),
        // As if it were another number each time: for lack of registers it is divided again.
        rows_per_request_(ptx::opaque(static_cast<int>(source.rows_per_request))),
        tile_rows_(tile_rows),
        per_request_((rows_per_request_ + tile_rows - 1) / tile_rows) {}

  // Where a row is a group, nothing is divided.
  int count() const {
    const int rows = static_cast<int>(source_.rows);
    return tile_rows_ == 1 ? rows : rows / rows_per_request_ * per_request_;
  }
  int first_row(int group) const {
    if (tile_rows_ == 1) return group;
    return group / per_request_ * rows_per_request_ + group % per_request_ * tile_rows_;
  }
  int rows(int group) const {
    if (tile_rows_ == 1) return 1;
    return min(rows_per_request_ - group % per_request_ * tile_rows_, tile_rows_);
  }

  // Tokens of the chunk that a row sees.
  int live_tokens(int row) const {
    int length = source_.lengths[row];
    if (source_.active_width) length = min(length, *source_.active_width);
    length = min(length, static_cast<int>(source_.table_width * kKernelPageSize));
    return max(min(length - static_cast<int>(source_.lengths_begin), static_cast<int>(source_.tokens)), 0);
  }
  // Pages of the chunk that any row of a group sees.
  int pages(int group) const {
    int tokens = 0;
#pragma unroll 1
    for (int row = first_row(group), end = row + rows(group); row < end; ++row) {
      tokens = max(tokens, live_tokens(row));
    }
    constexpr int kPageTokens = static_cast<int>(kKernelPageSize);
    return (tokens + kPageTokens - 1) / kPageTokens;
  }
  // The first page of the next group that has one; there is such a group.
  Place next(int group) const {
    Place place{group, 0, 0};
    do place.pages = pages(++place.group);
    while (place.pages == 0);
    return place;
  }

 private:
  const IndexerSource& source_;
  int rows_per_request_;
  int tile_rows_;
  int per_request_;
};

// A block's share of all pages. None where it counts 0.
struct Share {
  Place begin;  // its first page
  int count;    // of its pages
};
template <int kThreads>
inline Share find_share(const Groups& groups, int block, int grid_blocks, int* words) {
  const int per_thread = (groups.count() + kThreads - 1) / kThreads;
  const int first = thread_id() * per_thread;
  const int end = min(first + per_thread, groups.count());
  int sum = 0;
#pragma unroll 1
  for (int group = first; group < end; ++group) sum += groups.pages(group);
  const Prefix prefix = block_prefix<kThreads>(sum, words);
  const PageShares shares(prefix.total, grid_blocks);
  if (block >= shares.blocks) return {};
  const int begin = shares.begin(block);
  int* found = words + kWordShare;
  if (prefix.before <= begin && begin < prefix.before + sum) {
    int group = first, page = begin - prefix.before, pages = groups.pages(group);
    while (page >= pages) {
      page -= pages;
      pages = groups.pages(++group);
    }
    found[0] = group;
    found[1] = page;
    found[2] = pages;
  }
  ptx::block_sync();
  return {{found[0], found[1], found[2]}, shares.begin(block + 1) - begin};
}

// Of the number-th thing out of many; a stride has 32 bits, the product 64.
inline u64 offset_of(int number, i64 stride) {
  return static_cast<u64>(static_cast<u32>(number)) * static_cast<u32>(stride);
}

// The numbers of the chunk's pages, as a row sees them; negative: there is none.
inline const int* page_numbers(const IndexerSource& source, int row) {
  return source.page_table +
         (offset_of(row, source.table_stride) + static_cast<u32>(source.begin / kKernelPageSize));
}

}  // namespace moeplan
