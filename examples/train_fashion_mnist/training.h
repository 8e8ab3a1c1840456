// The network, its training loop, and its checkpoints.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

#include "data.h"
#include "options.h"
#include "progress.h"

// Sums over pictures. The program reads a step's numbers a few steps later, when they are computed.
struct Totals {
  double loss = 0, correct = 0, images = 0;
  double mean_loss() const { return loss / images; }
  double accuracy() const { return correct / images; }
};

// A point of the curves: epochs since the start (with fractions), loss, accuracy.
using Point = std::array<double, 3>;

class Training {
 public:
  // Returns at once; the data may still be loading. The processes of `ranks` share every batch; null: there
  // is only this process.
  Training(const Options& options, Dataset train, Dataset test,
           std::shared_ptr<heddle::Communicator> ranks = {});
  Training(const Training&) = delete;  // not copied, since the network keeps a pointer to dropout_
  Training& operator=(const Training&) = delete;

  // Restores the state saved in options.resume. Throws heddle::Error.
  void resume();

  // Trains to the last epoch, or until `stop` is true on any rank; then all ranks stop at the same step, a
  // few steps later. Rank 0 saves to options.save after each epoch and when stopped. Returns false if
  // stopped.
  bool run(ProgressLine& progress, const std::function<bool()>& stop);

  // Blocks until all ranks have made this call. A rank that exits earlier would abort other ranks while they
  // write files.
  void wait_for_all();

  std::string describe() const;
  int rank() const { return share_.rank; }
  int ranks() const { return share_.ranks; }
  double final_loss() const { return last_epoch_.mean_loss(); }  // the mean loss of the last epoch
  const Totals& test() const { return test_; }
  const std::vector<Point>& train_curve() const { return train_curve_; }
  const std::vector<Point>& test_curve() const { return test_curve_; }

 private:
  struct Pending {
    // f64 (3), summed over the ranks: loss, correct answers, number of ranks that want to stop.
    heddle::NDArray sums;
    std::int64_t images, step;
  };
  bool run_epoch(ProgressLine& progress, const std::function<bool()>& stop);
  Pending push_step(std::int64_t step, bool stop);
  heddle::NDArray forward(const Batch& batch);
  void read_back(ProgressLine& progress, std::size_t leave);
  void evaluate();
  void save(const heddle::Generator& shuffle);
  heddle::Checkpoint checkpoint(heddle::Generator& shuffle);

  Options options_;
  std::shared_ptr<heddle::Communicator> ranks_;  // null if there is only this process
  Share share_;
  BatchLoader train_, test_batches_;
  std::int64_t train_size_;
  heddle::Generator initial_, shuffle_, dropout_;
  heddle::Sequential net_;
  heddle::Trainer trainer_;
  std::deque<Pending> pending_;
  bool stopping_ = false;
  std::int64_t epoch_ = 0, step_ = 0;  // number of epochs done, and of steps done in the current epoch
  Totals epoch_totals_, window_, last_epoch_, test_;
  std::vector<Point> train_curve_, test_curve_;
};
