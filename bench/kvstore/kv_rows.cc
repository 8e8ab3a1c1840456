// A user of a store that pulls a whole matrix or some of its rows.
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>

#include <heddle/engine.h>
#include <heddle/ndarray.h>

#include "client/dist_store.h"
#include "kvstore/kv_options.h"
#include "kvstore/kv_user.h"
#include "support/support.h"

namespace heddle::bench {
namespace {

constexpr std::int64_t kWanted = 100;  // pull_rows pulls the number of rows divided by this

// A matrix whose elements are numbered, so that a wrong pulled row shows in its values.
class Matrix {
 public:
  Matrix(const UserOptions& options, std::int64_t rows, std::int64_t width)
      : store_("dist_async", {.servers = {options.address},
                              .job = options.layer + std::to_string(rows),
                              .consistency = "async",
                              .transport = transport_options(options.transport, options.keys)}),
        width_(width),
        whole_({rows, width}),
        some_({rows / kWanted, width}) {
    store_.init(0, arange(0, static_cast<double>(rows * width)).view_as({rows, width}));
    std::mt19937_64 random(1);
    for (std::int64_t i = 0; i < rows / kWanted; ++i)
      wanted_.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows)));
    list_ = array(wanted_, {rows / kWanted});
    list_.wait();
  }

  void pull(bool some) {
    if (some) {
      store_.pull_rows(0, list_, some_);
      some_.wait();
    } else {
      store_.pull(0, whole_);
      whole_.wait();
    }
  }

  long count_wrong(bool some) const {
    const auto values = (some ? some_ : whole_).to_vector<float>();
    long wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(width_);
      const auto from = some ? static_cast<std::size_t>(wanted_[row]) : row;
      const std::size_t at = from * static_cast<std::size_t>(width_) + i % static_cast<std::size_t>(width_);
      wrong += values[i] != static_cast<float>(at);
    }
    return wrong;
  }

 private:
  DistStore store_;
  const std::int64_t width_;
  NDArray whole_, some_, list_;
  std::vector<std::int64_t> wanted_;
};

}  // namespace

int run_rows_user(const UserOptions& options) {
  std::optional<Matrix> matrix;
  for (std::string line; std::getline(std::cin, line);) {
    std::ostringstream answer;
    try {
      std::istringstream words(line);
      std::string what;
      std::int64_t rows = 0, bytes = 0, rounds = 0;
      if (!(words >> what >> rows >> bytes >> rounds)) throw std::runtime_error("no command: " + line);
      if (!matrix) matrix.emplace(options, rows, bytes / 4);
      const bool some = what == "pull_rows";
      const double start = now();
      for (std::int64_t round = 0; round < rounds; ++round) matrix->pull(some);
      const double seconds = now() - start;
      answer << "ok " << seconds << ' ' << matrix->count_wrong(some);
    } catch (const std::exception& error) {
      answer.str(std::string("error ") + error.what());
    }
    std::cout << answer.str() << std::endl;
  }
  return 0;
}

}  // namespace heddle::bench
