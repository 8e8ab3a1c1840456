#include <heddle/tensor_board.h>

namespace heddle {

TensorBoard::TensorBoard(std::string folder, TensorBoardOptions options)
    : folder_(std::move(folder)), options_(options) {
  for (const auto& [name, value] :
       {std::pair{"every_steps", options.every_steps}, std::pair{"histograms", options.histograms}})
    if (value < 0)
      throw InvalidArgument(std::string("TensorBoard: ") + name + " is " + std::to_string(value) +
                            "; want 0 or more");
}

void TensorBoard::on_train_begin(FitRun& run) {
  if (run.rank() != 0) return;
  // Without a checkpoint a run that resumes takes the place of one that was killed before its first.
  writer_ = std::make_shared<SummaryWriter>(
      folder_, SummaryWriterOptions{.suffix = {}, .from_step = run.resumes() ? run.step() + 1 : -1});
  if (options_.graph) writer_->graph(run.net());
}

void TensorBoard::on_batch_end(FitRun& run) {
  if (!writer_ || options_.every_steps == 0 || run.step() % options_.every_steps != 0) return;
  writer_->scalar("batch_loss", run.value("batch_loss"), run.step());
}

void TensorBoard::on_epoch_end(FitRun& run, const FitValues& values) {
  if (!writer_) return;
  for (const auto& [name, value] : values) writer_->scalar(name, value, run.step());
  if (options_.histograms == 0 || (run.epoch() + 1) % options_.histograms != 0) return;
  for (const Parameter& one : run.trainer().parameters())
    writer_->histogram(one.name, one.value.detach(), run.step());
}

void TensorBoard::on_train_end(FitRun&) {
  if (writer_) writer_->close();
}

}  // namespace heddle
