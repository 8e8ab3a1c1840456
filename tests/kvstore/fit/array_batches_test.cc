// Batches of arrays in memory.
#include <algorithm>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

using namespace heddle;
using namespace heddle::test;

TEST_CASE("ArrayBatches: each row once, in an order of the epoch alone; a resumed epoch goes on in it") {
  const NDArray rows = arange(23), twice = rows * 2;
  const auto epoch_of = [&](ArrayBatches& batches, std::int64_t epoch, std::int64_t first) {
    std::vector<std::vector<float>> all;
    batches.start(epoch, first);
    for (auto batch = batches.next(); !batch.empty(); batch = batches.next()) {
      all.push_back(batch[0].to_vector<float>());
      CHECK(batch[1].to_vector<float>() == (batch[0] * 2).to_vector<float>());
    }
    return all;
  };
  ArrayBatches batches({rows, twice}, {.batch = 5, .shuffle = true, .seed = 3}),
      again({rows, twice}, {.batch = 5, .shuffle = true, .seed = 3});
  const auto first = epoch_of(batches, 0, 0), second = epoch_of(batches, 1, 0);
  CHECK(first != second);
  CHECK(batches.size() == 5);
  CHECK(first.size() == 5);
  CHECK(first.back().size() == 3);
  std::vector<float> all;
  for (const auto& one : first) all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  CHECK(all == rows.to_vector<float>());
  CHECK(epoch_of(again, 1, 2) == std::vector<std::vector<float>>(second.begin() + 2, second.end()));

  std::vector<float> shared;
  for (int rank = 0; rank < 2; ++rank) {
    ArrayBatches part({rows, twice}, {.batch = 6, .rank = rank, .ranks = 2});
    const auto own = epoch_of(part, 0, 0);
    CHECK(own.size() == 4);
    CHECK(own.back().size() == 2);  // of five rows that are left, four are shared
    for (const auto& one : own) shared.insert(shared.end(), one.begin(), one.end());
  }
  CHECK(shared.size() == 22);
  std::size_t uneven = 0;
  for (int rank = 0; rank < 4; ++rank) {
    ArrayBatches part({rows, twice}, {.batch = 21, .rank = rank, .ranks = 4, .uneven = true});
    for (const auto& one : epoch_of(part, 0, 0)) uneven += one.size();
  }
  CHECK(uneven == 23);
  CHECK(ArrayBatches({rows}, {.batch = 5, .drop_last = true}).size() == 4);
  CHECK(message_of([&] { ArrayBatches({rows}, {.batch = 5, .ranks = 2}); }) ==
        "ArrayBatches: batch is 5; want a multiple of the 2 ranks, which get as many rows each");
}

TEST_CASE("ArrayBatches: shuffled rows of arrays on several devices, in one order") {
  const NDArray rows = arange(23);
  ArrayBatches batches({rows, rows.copy_to(cpu(1)), rows.copy_to(cpu(1))}, {.batch = 5, .shuffle = true});
  batches.start(0);
  std::size_t seen = 0;
  for (auto batch = batches.next(); !batch.empty(); batch = batches.next(), ++seen) {
    for (const std::size_t i : {1, 2}) {
      CHECK(batch[i].device() == cpu(1));
      CHECK(batch[i].to_vector<float>() == batch[0].to_vector<float>());
    }
  }
  CHECK(seen == 5);
}
