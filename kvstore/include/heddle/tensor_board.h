// TensorBoard: a callback of fit() that writes what TensorBoard shows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <heddle/callback.h>
#include <heddle/summary_writer.h>

namespace heddle {

struct TensorBoardOptions {
  std::int64_t every_steps = 0;  // "batch_loss" of each so manyth step; 0: none
  std::int64_t histograms = 0;   // of all parameters, after each so manyth epoch; 0: none
  bool graph = false;            // the network's layers, at the beginning
};

// Writes the values of each epoch, under their names, to a new file in a folder; on rank 0. No step waits for it. An error of the
// file is thrown at the end of the training. A resumed run takes the place of what an earlier one has written of later steps.
class TensorBoard : public Callback {
 public:
  // Throws InvalidArgument for numbers below 0. The file is made when the training begins: Error if it cannot be.
  explicit TensorBoard(std::string folder, TensorBoardOptions options = {});
  void on_train_begin(FitRun& run) override;
  void on_batch_end(FitRun& run) override;
  void on_epoch_end(FitRun& run, const FitValues& values) override;
  void on_train_end(FitRun& run) override;

 private:
  std::string folder_;
  TensorBoardOptions options_;
  std::shared_ptr<SummaryWriter> writer_{};  // null on other ranks
};

}  // namespace heddle
