// The compressed reduction, compared with the same steps on one thread.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/compression.h>

#include "arguments.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Values = std::vector<float>;
const char* const kCodecs[] = {"fp16", "bf16", "1bit", "2bit:0.5", "topk:0.1"};

Values normals(std::size_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

NDArray array_of(const Values& values) { return array(values, {static_cast<std::int64_t>(values.size())}); }

// What receivers decode when residual + values is sent. Updates the residual.
Values send(const Codec& codec, const Values& values, Values& residual) {
  Values sent(values.size());
  std::vector<std::byte> bytes(codec.encoded_bytes(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) residual[i] += values[i];
  codec.encode(residual, bytes);
  codec.decode(bytes, sent);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float left = residual[i] - sent[i];
    residual[i] = std::isfinite(left) ? left : 0;
  }
  return sent;
}

// Does on one thread what all ranks of a compressed reduction do.
class Oracle {
 public:
  Oracle(const Codec& codec, std::size_t ranks, std::size_t count)
      : codec_(codec), ranks_(ranks), count_(count), residuals_(ranks, Values(count)), sum_residuals_(ranks) {
    if (const auto other = codec.for_sums(static_cast<int>(ranks))) sum_codec_ = other;
    for (std::size_t part = 0; part < ranks; ++part)
      sum_residuals_[part].resize(begin(part + 1) - begin(part));
  }

  Values reduce(const std::vector<Values>& gradients) {
    Values result;
    for (std::size_t part = 0; part < ranks_; ++part) {
      Values sum(begin(part + 1) - begin(part));
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const Values sent = send_part(gradients[rank], residuals_[rank], part);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = rank == 0 ? sent[i] : sum[i] + sent[i];
      }
      const Values sent = send(*sum_codec_, sum, sum_residuals_[part]);
      result.insert(result.end(), sent.begin(), sent.end());
    }
    return result;
  }
  const Values& residual(int rank) const { return residuals_[static_cast<std::size_t>(rank)]; }
  const Values& sum_residual(int rank) const { return sum_residuals_[static_cast<std::size_t>(rank)]; }

 private:
  std::size_t begin(std::size_t part) const {
    return std::min(count_, part * ((count_ + ranks_ - 1) / ranks_));
  }
  Values send_part(const Values& gradient, Values& residual, std::size_t part) const {
    const auto from = static_cast<std::ptrdiff_t>(begin(part)),
               to = static_cast<std::ptrdiff_t>(begin(part + 1));
    Values mine(residual.begin() + from, residual.begin() + to);
    const Values sent = send(codec_, Values(gradient.begin() + from, gradient.begin() + to), mine);
    std::copy(mine.begin(), mine.end(), residual.begin() + from);
    return sent;
  }
  const Codec& codec_;
  std::shared_ptr<const Codec> sum_codec_{std::shared_ptr<void>(), &codec_};  // not owned: points to codec_
  std::size_t ranks_, count_;
  std::vector<Values> residuals_, sum_residuals_;
};

void check_like_oracle(const std::string& name, int ranks, std::size_t count) {
  CAPTURE(name);
  CAPTURE(ranks);
  CAPTURE(count);
  const auto codec = make_codec(name);
  Oracle oracle(*codec, static_cast<std::size_t>(ranks), count);
  constexpr int kSteps = 3;
  std::vector<Values> expected;
  const auto gradient = [&](int step, int rank) { return normals(count, 100 * step + rank); };
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Values> gradients;
    for (int rank = 0; rank < ranks; ++rank) gradients.push_back(gradient(step, rank));
    expected.push_back(oracle.reduce(gradients));
  }
  run_local(ranks, {}, [&](Communicator& given) {
    const std::shared_ptr<Communicator> comm(&given, [](Communicator*) {});
    CompressedReduce reduce(comm, codec, static_cast<std::int64_t>(count));
    for (int step = 0; step < kSteps; ++step) {
      const NDArray array = array_of(gradient(step, comm->rank()));
      reduce.reduce(array);
      CHECK(array.to_vector<float>() == expected[static_cast<std::size_t>(step)]);
    }
    CHECK(reduce.residual() == oracle.residual(comm->rank()));
    CHECK(reduce.sum_residual() == oracle.sum_residual(comm->rank()));
  });
}

// Learns w of y = x . w by training on two ranks with half of the samples each. Returns the mean loss at the
// end.
double train(const std::string& name) {
  constexpr std::size_t kSamples = 64, kWeights = 24;
  const Values truth = normals(kWeights, 5), x = normals(kSamples * kWeights, 6);
  const auto error_of = [&](const Values& weights, std::size_t sample) {
    float error = 0;
    for (std::size_t k = 0; k < kWeights; ++k) error += x[sample * kWeights + k] * (weights[k] - truth[k]);
    return error;
  };
  double loss = 0;
  run_local(2, {}, [&](Communicator& given) {
    const std::shared_ptr<Communicator> comm(&given, [](Communicator*) {});
    const auto codec = make_codec(name);
    std::unique_ptr<CompressedReduce> reduce;
    if (codec) reduce = std::make_unique<CompressedReduce>(comm, codec, kWeights);
    Values weights(kWeights);
    for (int step = 0; step < 600; ++step) {
      Values gradient(kWeights);
      for (std::size_t s = static_cast<std::size_t>(comm->rank()); s < kSamples; s += 2) {
        const float error = error_of(weights, s) / kSamples;
        for (std::size_t k = 0; k < kWeights; ++k) gradient[k] += error * x[s * kWeights + k];
      }
      const NDArray array = array_of(gradient);
      reduce ? reduce->reduce(array) : comm->all_reduce(array);
      const Values sum = array.to_vector<float>();
      for (std::size_t k = 0; k < kWeights; ++k) weights[k] -= 0.05f * sum[k];
    }
    if (comm->rank() != 0) return;
    for (std::size_t s = 0; s < kSamples; ++s) loss += std::pow(error_of(weights, s), 2) / kSamples;
  });
  return loss;
}

}  // namespace

TEST_CASE("compressed reductions are those of the oracle, bit for bit") {
  for (const std::string name : kCodecs) {
    for (int ranks : kSanitized ? std::vector{1, 2, 5} : std::vector{1, 2, 3, 4, 5}) {
      for (std::size_t count : {0, 1, 7, 1000}) check_like_oracle(name, ranks, count);
    }
    check_like_oracle(name, 3, kSanitized ? (1 << 17) + 3 : (1 << 20) + 3);
  }
}

TEST_CASE("over tcp they are the same") {
  const auto codec = make_codec("1bit");
  Oracle oracle(*codec, 2, 70'000);
  const Values expected = oracle.reduce({normals(70'000, 0), normals(70'000, 1)});
  run_job("tcp", 2, {}, [&](Communicator& given) {
    const std::shared_ptr<Communicator> comm(&given, [](Communicator*) {});
    CompressedReduce reduce(comm, codec, 70'000);
    const NDArray array = array_of(normals(70'000, comm->rank()));
    reduce.reduce(array);
    CHECK(array.to_vector<float>() == expected);
  });
}

TEST_CASE("nothing is lost: what was applied and what is left are the sum of all gradients") {
  for (const std::string name : kCodecs) {
    CAPTURE(name);
    constexpr std::size_t kCount = 300;
    std::vector<double> all(kCount), found(kCount);
    std::mutex mutex;
    run_local(3, {}, [&](Communicator& given) {
      const std::shared_ptr<Communicator> comm(&given, [](Communicator*) {});
      CompressedReduce reduce(comm, make_codec(name), kCount);
      std::vector<double> mine(kCount), applied(kCount);
      for (int step = 0; step < 50; ++step) {
        Values gradient = normals(kCount, 10 * step + comm->rank());
        // Multiples of 1/64, whose sums are exact.
        for (float& value : gradient) value = std::round(value * 64) / 64;
        const NDArray array = array_of(gradient);
        reduce.reduce(array);
        const Values sum = array.to_vector<float>();
        for (std::size_t i = 0; i < kCount; ++i) mine[i] += gradient[i], applied[i] += sum[i];
      }
      const Values left = reduce.residual(), sum_left = reduce.sum_residual();
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < kCount; ++i) {
        all[i] += mine[i];
        found[i] += left[i] + (comm->rank() == 0 ? applied[i] : 0);
      }
      for (std::size_t i = 0; i < 100; ++i)
        found[static_cast<std::size_t>(comm->rank()) * 100 + i] += sum_left[i];
    });
    const bool exact = name.starts_with("2bit") || name.starts_with("topk");
    double worst = 0;
    for (std::size_t i = 0; i < kCount; ++i) worst = std::max(worst, std::abs(found[i] - all[i]));
    CHECK(worst <= (exact ? 0 : 1e-3));
  }
}

TEST_CASE("a linear model learns with every codec what it learns without") {
  const double plain = train("none"), begin = 24;  // begin: the loss before training, about the variance of y
  CHECK(plain < 1e-4 * begin);
  for (const std::string name : {"fp16", "bf16", "1bit", "2bit:0.2", "topk:0.1"}) {
    CAPTURE(name);
    CHECK(train(name) < 1e-3 * begin);
  }
}

TEST_CASE("what is not finite is passed on and forgotten") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::string name : kCodecs) {
    CAPTURE(name);
    run_local(2, {}, [&](Communicator& given) {
      const std::shared_ptr<Communicator> comm(&given, [](Communicator*) {});
      CompressedReduce reduce(comm, make_codec(name), 40);
      Values gradient(40, 0.5f);
      if (comm->rank() == 1) gradient[3] = std::nanf(""), gradient[25] = -kInf;
      const NDArray bad = array_of(gradient);
      reduce.reduce(bad);
      const Values sum = bad.to_vector<float>();
      CHECK_FALSE(std::isfinite(sum[3]));
      CHECK_FALSE(std::isfinite(sum[25]));
      for (int step = 0; step < 3; ++step) {
        const NDArray good = full({40}, 0.5);
        reduce.reduce(good);
        for (float value : good.to_vector<float>()) CHECK(std::isfinite(value));
      }
      for (float value : reduce.residual()) CHECK(std::isfinite(value));
      for (float value : reduce.sum_residual()) CHECK(std::isfinite(value));
    });
  }
}

TEST_CASE(
    "an array that fails fails the call on all ranks, and after clear_errors it is as if it had not been") {
  const auto codec = make_codec("2bit:0.5");
  Oracle oracle(*codec, 3, 100);
  std::vector<Values> expected;
  for (int step = 0; step < 2; ++step) {
    expected.push_back(
        oracle.reduce({normals(100, 3 * step), normals(100, 3 * step + 1), normals(100, 3 * step + 2)}));
  }
  run_local(3, {}, [&](Communicator& given) {
    const std::shared_ptr<Communicator> comm(&given, [](Communicator*) {});
    CompressedReduce reduce(comm, codec, 100);
    const NDArray first = array_of(normals(100, comm->rank()));
    reduce.reduce(first);
    CHECK(first.to_vector<float>() == expected[0]);
    const Values left = reduce.residual(), sum_left = reduce.sum_residual();
    // In round 0 the arrays' op fails. Round 1 fails because of the residuals, until their errors are
    // cleared.
    for (int round = 0; round < 2; ++round) {
      const NDArray bad = ones({100});
      if (comm->rank() == 1 && round == 0)
        array_push("load", {}, {bad}, [] { throw std::runtime_error("bad batch"); });
      reduce.reduce(bad);
      CHECK_THROWS_WITH(bad.wait(), doctest::Contains("bad batch"));
    }
    CHECK_THROWS_WITH(reduce.residual(), doctest::Contains("bad batch"));
    reduce.clear_errors();
    CHECK(reduce.residual() == left);
    CHECK(reduce.sum_residual() == sum_left);
    const NDArray second = array_of(normals(100, 3 + comm->rank()));
    reduce.reduce(second);
    CHECK(second.to_vector<float>() == expected[1]);
  });
}

TEST_CASE("arrays with gaps, wrong arrays, and how many bytes are sent") {
  const std::shared_ptr<Communicator> comm = Communicator::create_local(1)[0];
  CompressedReduce reduce(comm, make_codec("fp16"), 6);
  const NDArray wide = array_of({4097, 2, 4097, 4, 5, 6, 7, 8, 9}).view_as({3, 3}),
                view = wide.slice(1, {0, 2});
  reduce.reduce(view);
  CHECK(wide.to_vector<float>() == Values{4096, 2, 4097, 4, 5, 6, 7, 8, 9});
  CHECK_THROWS_WITH_AS(reduce.reduce(zeros({5})), doctest::Contains("want f32, 6 elements"), InvalidArgument);
  CHECK_THROWS_AS(reduce.reduce(zeros({6}, DType::f64)), InvalidArgument);
  CHECK_THROWS_AS(reduce.reduce(NDArray()), InvalidArgument);
  CHECK_THROWS_AS(CompressedReduce(comm, nullptr, 6), InvalidArgument);
  CHECK_THROWS_AS(CompressedReduce(comm, make_codec("fp16"), -1), InvalidArgument);
  CHECK(reduce.wire_bytes() == 0);
  run_local(2, {}, [](Communicator& given) {
    const std::shared_ptr<Communicator> both(&given, [](Communicator*) {});
    CHECK(CompressedReduce(both, make_codec("2bit"), 1 << 20).wire_bytes() == (1 << 20) / 4);
  });
}

TEST_CASE("ranks that do not reduce the same are told who reduces what, also where lengths fit by chance") {
  const struct {
    const char *codec, *other;
    std::int64_t count, others_count;
    bool fits;  // false: the lengths of the ranks' arrays differ, which aborts the communicator
    const char* text;
  } cases[] = {
      {"fp16", "bf16", 100, 100, true, "rank 0 has 100 elements by fp16, rank 1 has 100 elements by bf16"},
      {"2bit:0.5", "2bit:0.25", 100, 100, true, "by 2bit:0.5, rank 1 has 100 elements by 2bit:0.25"},
      {"fp16", "fp16", 100, 99, true, "rank 0 has 100 elements by fp16, rank 1 has 99 elements by fp16"},
      {"fp16", "1bit", 100, 5000, false, "rank 1 has 5000 elements by 1bit"},
  };
  for (const auto& one : cases) {
    CAPTURE(std::string(one.text));
    for (const std::string& backend : all_backends()) {
      CAPTURE(backend);
      const auto body = [&](Communicator& comm) {
        const std::shared_ptr<Communicator> ranks(&comm, [](Communicator*) {});
        const bool odd = comm.rank() == 1;
        const std::int64_t count = odd ? one.others_count : one.count;
        CompressedReduce reduce(ranks, make_codec(odd ? one.other : one.codec), count);
        for (int i = 0; i < 2; ++i) {
          NDArray data = ones({count});
          reduce.reduce(data);
          CHECK_THROWS_WITH_AS(data.wait(), doctest::Contains(one.text), CommMismatch);
        }
        if (!one.fits) return;
        comm.barrier();  // works: the communicator has not been aborted
        comm.wait();
      };
      const Outcomes outcomes = try_job(backend, 2, {}, body);
      for (const std::exception_ptr& outcome : outcomes) CHECK(text_of(outcome) == "");
    }
  }
}
