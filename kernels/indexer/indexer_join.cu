// indexer_join: what was selected from the ends of a row, and what survived between them, as one list in the
// order of their tokens. Blocks of a row take a part of its steps each.
#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/pages.cuh"
#include "kernels/indexer/survivors.cuh"

namespace moeplan {
namespace {

constexpr int kThreads = static_cast<int>(kJoinThreads);
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr int kPageTokens = static_cast<int>(kKernelPageSize);
constexpr int kStaged = 4096;  // survivors on their way from where they lie to where they go

// A row's list.
struct List {
  float* values;
  int* indices;

  void put(int place, float value, int index) const {
    values[place] = value;
    indices[place] = index;
  }
};

// How many of a row's survivors there are; more than all lists hold where one of them has no room.
inline int count_survivors(const IndexerJoinArguments& args, int row) {
  int count = 0;
  bool has_room = true;
#pragma unroll
  for (int list = 0; list < kLists; ++list) {
    const int of_list = args.survivor_counts[count_at(list_of(row, list))];
    count += of_list;
    has_room &= of_list <= args.capacity;
  }
  return has_room ? count : 0x7FFFFFFF;
}

class Join {
 public:
  Join(const IndexerJoinArguments& args, int row, int part, int survivors)
      : args_(args),
        row_(row),
        part_(part),
        survivors_(survivors),
        head_(static_cast<int>(args.head_tokens)),
        list_{args.list_values + offset_of(row, args.list_stride),
              args.list_indices + offset_of(row, args.list_stride)},
        directory_(args.directory + offset_of(row, args.directory_stride)) {}

  void run() {
    put_ends();
    put_survivors();
    const int count = block_prefix<kThreads>(in_head_ + in_tail_, words_).total + survivors_;
    if (part_ > 0) return;
    // Selectors read four entries at a time.
    if (thread_id() < (0 - count & 3)) list_.put(count + thread_id(), minus_infinity(), -1);
    if (thread_id() == 0) args_.list_counts[row_] = count;
  }

 private:
  // By the first part, and counted by all. Indices of the tail are counted without what lies between.
  void put_ends() {
    const int top_k = static_cast<int>(args_.top_k), skipped = args_.skipped_pages[row_] * kPageTokens;
    const float* values = args_.ends_values + offset_of(row_, args_.top_k);
    const int* indices = args_.ends_indices + offset_of(row_, args_.top_k);
#pragma unroll 4
    for (int i = thread_id(); i < top_k; i += kThreads) {
      const int index = indices[i];
      in_head_ += index >= 0 && index < head_;
      in_tail_ += index >= head_;
      if (part_ > 0 || index < 0) continue;
      if (index < head_)
        list_.put(i, values[i], index);
      else
        list_.put(i + survivors_, values[i], index + skipped);
    }
  }

  // A thread's steps follow each other. By way of shared memory, so that threads beside each other store side
  // by side.
  void put_survivors() {
    const int tokens = max(args_.middle_lengths[row_] - head_, 0);
    const int of_step = static_cast<int>(args_.step_tokens), steps = (tokens + of_step - 1) / of_step;
    const int all_threads = static_cast<int>(args_.parts) * kThreads;
    const int of_thread = (steps + all_threads - 1) / all_threads;
    const int begin = min(part_ * of_thread * kThreads, steps);
    first_ = min(begin + thread_id() * of_thread, steps);
    end_ = min(first_ + of_thread, steps);
    const int ahead = block_prefix<kThreads>(in_head_ + count_before(begin), words_).total;
    int own = 0;
    for (int step = first_; step < end_; ++step) own += count_of(directory_[step]);
    const Prefix places = block_prefix<kThreads>(own, words_);
#pragma unroll 1
    for (int from = 0; from < places.total; from += kStaged) {
      stage(places.before - from);
      ptx::block_sync();
      for (int i = thread_id(); i < min(places.total - from, kStaged); i += kThreads)
        list_.put(ahead + from + i, logits_[i], indices_[i]);
      ptx::block_sync();
    }
  }

  // The thread's part of those in the steps before one: a multiple of four, or the last.
  int count_before(int step) const {
    int count = 0;
#pragma unroll 4
    for (int i = thread_id(); i < step / 4; i += kThreads) {
      const ptx::Four four = reinterpret_cast<const ptx::Four*>(directory_)[i];
      for (int word : four.word) count += count_of(static_cast<unsigned>(word));
    }
    return count;
  }

  // Those of the thread that have a place.
  void stage(int place) {
    for (int step = first_; step < end_; ++step) {
      const unsigned word = directory_[step];
      const Survivor* from =
          args_.survivors + (offset_of(list_of(row_, step), args_.capacity) + first_survivor(word));
#pragma unroll 4
      for (int i = 0; i < count_of(word); ++i) {
        if (place + i < 0 || place + i >= kStaged) continue;
        logits_[place + i] = from[i].logit;
        indices_[place + i] = from[i].index;
      }
      place += count_of(word);
    }
  }

  const IndexerJoinArguments& args_;
  int row_;
  int part_;
  int survivors_;  // of the row
  int head_;       // tokens
  List list_;
  const unsigned* directory_;
  int in_head_ = 0;  // of those of the ends that the thread has seen
  int in_tail_ = 0;
  int first_ = 0;  // of the thread's steps
  int end_ = 0;
  int* words_ = shared_words();
  float* logits_ = reinterpret_cast<float*>(words_ + 32);
  int* indices_ = words_ + 32 + kStaged;

  static int* shared_words() {
    __shared__ int words[32 + 2 * kStaged];
    return words;
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    indexer_join(const __grid_constant__ IndexerJoinArguments args) {
  ptx::wait_for_last_launch();
  ptx::release_next_launch();
  const int parts = static_cast<int>(args.parts);
  const int row = static_cast<int>(blockIdx.x) / parts, part = static_cast<int>(blockIdx.x) % parts;
  const int survivors = count_survivors(args, row);
  const bool has_room = survivors <= kLists * args.capacity;
  if (part == 0 && thread_id() == 0) {
    args.rest_lengths[row] = has_room ? 0 : Groups(args.source, 1).live_tokens(row);
    if (!has_room) args.list_counts[row] = 0;
  }
  if (has_room) Join(args, row, part, survivors).run();
}

}  // namespace moeplan
