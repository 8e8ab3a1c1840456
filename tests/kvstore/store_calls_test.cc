// Properties of every store's calls: a refused call has no effect, and a call with a list does what single
// calls for its elements do.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_error.h>
#include <heddle/heddle.h>

#include "allreduce_job.h"
#include "arguments.h"
#include "dist_job.h"
#include "stores/written_parts.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Floats = std::vector<float>;
using Arrays = std::vector<NDArray>;
using Keys = std::vector<Key>;
using Body = std::function<void(KVStore&)>;

// The types of stores and their numbers of workers. A "dist_async" store adds pushes in the order of arrival,
// so it has one worker here.
const std::vector<std::pair<std::string, int>> kStores = {
    {"local", 1}, {"allreduce", 1}, {"allreduce", 2}, {"dist_sync", 1}, {"dist_sync", 2}, {"dist_async", 1}};

void on_store(const std::string& type, int workers, const Body& body) {
  if (type == "local") return body(*KVStore::create(type));
  if (type == "allreduce") return on_ranks(workers, body);
  run_job({.workers = workers, .servers = 2, .type = type}, body);
}

void on_every_store(const Body& body) {
  for (const auto& [type, workers] : kStores) {
    CAPTURE(type);
    CAPTURE(workers);
    on_store(type, workers, body);
  }
}

NDArray list(const std::vector<std::int64_t>& rows) { return array(rows, {std::ssize(rows)}); }

void push(KVStore& store, const Keys& keys, const Arrays& values, const UpdateOptions& options = {}) {
  store.push(std::span<const Key>(keys), std::span<const NDArray>(values), options);
}
void pull(KVStore& store, const Keys& keys, const Arrays& out) {
  store.pull(std::span<const Key>(keys), std::span<const NDArray>(out));
}
void push_pull(KVStore& store, const Keys& keys, const Arrays& values, const Arrays& out) {
  store.push_pull(std::span<const Key>(keys), std::span<const NDArray>(values),
                  std::span<const NDArray>(out));
}

// Calls that a store refuses whose keys are 0 and 1 with f32 (4, 2), and 2 with i32 (3,). They must not write
// `out`, and must not make a key 3.
std::vector<std::function<void(KVStore&)>> refused_calls(const NDArray& out) {
  const NDArray nine = full({4, 2}, 9), wrong = zeros({5}), wide = full({4, 2}, 9, DType::f64), none;
  const NDArray folded = zeros({2}).view({4, 2}, {0, 1}, 0);  // an array whose rows share memory
  const Arrays both{nine, nine}, second{nine, wrong};
  const RowSparse rows = row_sparse(list({1}), full({1, 2}, 9), {4, 2}),
                  of_other = row_sparse(list({1}), full({1, 2}, 9), {5, 2});
  return {
      [=](KVStore& s) {
        push(s, {0, 99}, both);
      },
      [=](KVStore& s) {
        push(s, {0, 1}, second);
      },
      [=](KVStore& s) {
        push(s, {0, 1}, {nine, wide});
      },
      [=](KVStore& s) {
        push(s, {0, 1}, {nine, none});
      },
      [=](KVStore& s) {
        push(s, {0, 1}, {nine});
      },
      [=](KVStore& s) {
        push(s, {0, 2}, {nine, full({3}, 9, DType::i32)}, {.grad_scale = 0.5});
      },
      [=](KVStore& s) { s.push(0, second); },
      [=](KVStore& s) { s.push(0, Arrays{}); },
      [=](KVStore& s) { s.push(0, nine, {.grad_scale = HUGE_VAL}); },
      [=](KVStore& s) {
        pull(s, {0, 99}, {out, out});
      },
      [=](KVStore& s) {
        pull(s, {0, 1}, {out, wrong});
      },
      [=](KVStore& s) {
        pull(s, {0, 1}, {out, folded});
      },
      [=](KVStore& s) {
        s.pull(0, {out, wrong});
      },
      [=](KVStore& s) {
        s.pull(0, {out, folded});
      },
      [=](KVStore& s) {
        s.push_pull(0, {&nine, 1}, {&wrong, 1});
      },
      [=](KVStore& s) {
        s.push_pull(0, {&nine, 1}, {&folded, 1});
      },
      [=](KVStore& s) {
        s.push_pull(0, {&nine, 1}, {});
      },
      [=](KVStore& s) {
        s.push_pull(0, {&wrong, 1}, {&out, 1});
      },
      [=](KVStore& s) {
        s.push_pull(99, {&nine, 1}, {&out, 1});
      },
      [=](KVStore& s) {
        push_pull(s, {0, 99}, both, {out, out});
      },
      [=](KVStore& s) {
        push_pull(s, {0, 1}, both, {out, wrong});
      },
      [=](KVStore& s) {
        push_pull(s, {0, 1}, both, {out, folded});
      },
      [=](KVStore& s) {
        push_pull(s, {0, 1}, second, {out, out});
      },
      [=](KVStore& s) {
        push_pull(s, {0, 1}, both, {out});
      },
      [=](KVStore& s) { s.init(0, nine); },
      [=](KVStore& s) { s.init(3, none); },
      [=](KVStore& s) {
        s.broadcast(0, nine, {&out, 1});
      },
      [=](KVStore& s) {
        s.broadcast(3, nine, {&wrong, 1});
      },
      [=](KVStore& s) {
        s.broadcast(3, nine, {&folded, 1});
      },
      [=](KVStore& s) { s.broadcast(3, nine, {}); },
      [=](KVStore& s) { s.assign(0, wrong); },
      [=](KVStore& s) { s.assign(99, nine); },
      [=](KVStore& s) { s.push(0, of_other); },
      [=](KVStore& s) {
        s.push(0, std::vector<RowSparse>{rows, RowSparse()});
      },
      [=](KVStore& s) {
        s.push(0, std::vector<RowSparse>{rows, of_other});
      },
      [=](KVStore& s) { s.push(0, rows, {.grad_scale = HUGE_VAL}); },
      [=](KVStore& s) { s.pull_rows(2, list({1})); },
      [=](KVStore& s) { s.pull_rows(99, list({1})); },
      [=](KVStore& s) { s.pull_rows(0, zeros({1})); },
      [=](KVStore& s) {
        s.pull_rows(0, list({0, 1, 2}), out);
      },
      [=](KVStore& s) {
        s.pull_rows(0, list({0, 1, 2, 3}), folded);
      },
  };
}

Floats pulled(KVStore& store, Key key, const Shape& shape) {
  const NDArray out(shape);
  store.pull(key, out);
  return out.to_vector<float>();
}

}  // namespace

// Only worker 0 makes the refused calls: if one took part in a collective, it would wait for worker 1.
TEST_CASE("every store: a call that is refused has done nothing") {
  on_every_store([](KVStore& store) {
    const Shape shape{4, 2};
    const NDArray out = full(shape, 7);
    store.set_optimizer("add");
    for (const int key : {0, 1}) store.init(key, zeros(shape));
    store.init(2, zeros({3}, DType::i32));
    float round = 0;
    for (const auto& call : refused_calls(out)) {
      CAPTURE(round);
      ++round;
      store.push(0, ones(shape));
      if (store.rank() == 0) CHECK_THROWS_AS(call(store), InvalidArgument);
      store.push(1, ones(shape));
      const float sum = round * static_cast<float>(store.workers());
      CHECK(pulled(store, 0, shape) == Floats(8, sum));
      CHECK(pulled(store, 1, shape) == Floats(8, sum));
    }
    CHECK(out.to_vector<float>() == Floats(8, 7));
    store.broadcast(3, full(shape, 5), {&out, 1});
    CHECK(out.to_vector<float>() == Floats(8, 5));
  });
}

TEST_CASE("every store: a key that is in a list more than once is pushed and pulled each time") {
  on_every_store([](KVStore& store) {
    const auto n = static_cast<float>(store.workers());
    const auto value = [](double x) { return full({1}, x); };
    store.init(0, zeros({1}));
    store.init(1, zeros({1}));
    const Arrays out{zeros({1}), zeros({1}), zeros({1})};
    const auto seen = [&] {
      Floats all;
      for (const NDArray& one : out) all.push_back(one.item<float>());
      return all;
    };
    push_pull(store, {0, 0, 0}, {value(1), value(2), value(3)}, out);
    CHECK(seen() == Floats{n, 2 * n, 3 * n});
    store.set_optimizer("add");
    push_pull(store, {0, 1, 0}, {value(1), value(2), value(3)}, out);
    CHECK(seen() == Floats{4 * n, 2 * n, 7 * n});
    push(store, {1, 1}, {value(1), value(2)});
    pull(store, {1, 0, 1}, {out[0], out[1], out[1]});
    CHECK(seen() == Floats{5 * n, 5 * n, 7 * n});
    // The second value of the list is the array that the first key is pulled into.
    push_pull(store, {0, 1}, {value(1), out[2]}, {out[2], out[0]});
    CHECK(seen() == Floats{5 * n + 8 * n * n, 5 * n, 8 * n});
  });
}

namespace {

// The values after a random program, whose pushed and pulled arrays are parts of one buffer that sometimes
// overlap.
Floats results_of(KVStore& store, unsigned seed, bool lists) {
  std::mt19937 random(seed);
  // The last size is large enough to be reduced alone.
  const std::vector<std::int64_t> sizes = {1, 5, 30, 70'000};
  const NDArray buffer = arange(200'000).astype(DType::f32);
  store.set_optimizer("sgd", {{"lr", 1}});
  for (std::size_t key = 0; key < sizes.size(); ++key) store.init(static_cast<Key>(key), zeros({sizes[key]}));
  const auto part = [&](std::int64_t size) {
    const std::int64_t most = random() % 3 == 0 ? 200'000 - size : 40;
    const std::int64_t at = static_cast<std::int64_t>(random()) % most;
    return buffer.slice(0, {at, at + size});
  };
  for (int step = 0; step < 6; ++step) {
    Keys keys;
    Arrays values, out;
    for (int i = 0; i < 5; ++i) {
      const std::size_t key = random() % sizes.size();
      keys.push_back(static_cast<Key>(key));
      values.push_back(part(sizes[key]));
      out.push_back(random() % 4 == 0 ? values.back() : part(sizes[key]));
    }
    for (std::size_t i = 0; i < keys.size() && !lists; ++i)
      store.push_pull(keys[i], {&values[i], 1}, {&out[i], 1}, {.grad_scale = 0.5});
    if (lists)
      store.push_pull(std::span<const Key>(keys), std::span<const NDArray>(values),
                      std::span<const NDArray>(out), {.grad_scale = 0.5});
    if (lists) {
      pull(store, keys, out);
    } else {
      for (std::size_t i = 0; i < keys.size(); ++i) store.pull(keys[i], out[i]);
    }
  }
  return buffer.to_vector<float>();
}

}  // namespace

TEST_CASE("every store: a list does what its calls do one after the other, whatever its arrays share") {
  for (const auto& [type, workers] : kStores) {
    CAPTURE(type);
    CAPTURE(workers);
    for (unsigned seed = 0; seed < (kSanitized ? 2 : 8); ++seed) {
      CAPTURE(seed);
      std::vector<Floats> expected(static_cast<std::size_t>(workers));
      for (const bool lists : {false, true}) {
        on_store(type, workers, [&](KVStore& store) {
          Floats& of_rank = expected[static_cast<std::size_t>(store.rank())];
          const Floats got = results_of(store, seed, lists);
          if (!lists) of_rank = got;
          CHECK(got == of_rank);
        });
      }
    }
  }
}

// If the ranks reduced different groups of keys, they would get an error.
TEST_CASE("allreduce store: a list without a repeated key is reduced as a whole, also in place") {
  on_ranks(2, [](KVStore& store) {
    const NDArray buffer = ones({30});
    Keys keys;
    Arrays parts;
    for (std::int64_t key = 0; key < 10; ++key) {
      store.init(key, zeros({3}));
      keys.push_back(key);
      parts.push_back(buffer.slice(0, {3 * key, 3 * key + 3}));
    }
    if (store.rank() == 0) {
      push_pull(store, keys, parts, parts);
    } else {
      for (std::size_t i = 0; i < keys.size(); ++i) store.push(keys[i], parts[i]);
      for (std::size_t i = 0; i < keys.size(); ++i) store.pull(keys[i], parts[i]);
    }
    CHECK(buffer.to_vector<float>() == Floats(30, 2));
  });
}

TEST_CASE("every store: a row that there is not fails pull_rows with InvalidIndex, which names the key") {
  on_every_store([](KVStore& store) {
    store.init("words", zeros({4, 2}));
    store.init("empty", zeros({4, 0}));
    for (const std::int64_t row : {4, -1}) {
      const std::string said = "row " + std::to_string(row) + " is out of range for an array of 4 rows";
      for (const char* key : {"words", "empty"}) {
        const std::string wanted = "KVStore::pull_rows, key " + std::string(key) + ": " + said;
        const RowSparse found = store.pull_rows(Key(key), list({0, row}));
        CHECK_THROWS_AS(found.wait(), InvalidIndex);
        CHECK_THROWS_WITH(found.wait(), doctest::Contains(wanted.c_str()));
      }
      const NDArray out({1, 2});
      store.pull_rows("words", array(std::vector<std::int32_t>{static_cast<std::int32_t>(row)}, {1}), out);
      CHECK_THROWS_AS(out.wait(), InvalidIndex);
    }
    CHECK(pulled(store, "words", {4, 2}) == Floats(8, 0));
  });
}

TEST_CASE("written parts: what was added overlaps what has one of its bytes") {
  std::mt19937 random(1);
  const NDArray buffers[] = {zeros({64}), zeros({64})};
  for (int round = 0; round < 200; ++round) {
    WrittenParts parts;
    std::vector<bool> bytes(128);
    for (int step = 0; step < 12; ++step) {
      const std::size_t which = random() % 2;
      const std::int64_t begin = random() % 64, size = random() % std::min<std::int64_t>(8, 65 - begin);
      const NDArray part = buffers[which].slice(0, {begin, begin + size});
      bool expected = false;
      for (std::int64_t i = begin; i < begin + size; ++i)
        expected = expected || bytes[which * 64 + static_cast<std::size_t>(i)];
      CHECK(parts.overlap(part) == expected);
      CHECK(parts.overlap(flip(part, 0)) == expected);
      if (random() % 2 == 0) continue;
      parts.add(part);
      for (std::int64_t i = begin; i < begin + size; ++i)
        bytes[which * 64 + static_cast<std::size_t>(i)] = true;
    }
  }
}

// A restarted worker reads this number of rounds and continues after them.
TEST_CASE("dist_sync store: the optimizer's state says how many rounds of a key are complete") {
  run_job({.workers = 2, .servers = 2}, [](KVStore& store) {
    store.init("w", zeros({3}));
    store.set_optimizer("sgd", {{"lr", 0.5}});
    for (std::int64_t round = 1; round <= 3; ++round) {
      store.push("w", ones({3}));
      store.barrier();
      CHECK(store.optimizer_state().at("w.updates").item<std::int64_t>() == round);
      store.barrier();
    }
  });
}
