// What a checkpoint of a training holds besides a network and a trainer.
//
//   fit.history.NAME          f64 (epochs), the values of each epoch; fit.history.epochs i64
//   fit.generator.NAME        i64 (ranks, 2), seed and position
//   fit.buffer.NAME           (ranks, ...), of several ranks: what forward() changes, such as running statistics
//   fit.values.I              f64 (ranks, ...), within an epoch: EpochValues::state()
//   fit.callback.I.NAME       an array of the callback I; numbers as f64 under fit.number.I.NAME
//   fit.of_rank.I.NAME        (ranks, ...), an array of the callback I of which each rank has its own
// and as notes
//   fit.setting.NAME          on which a position within an epoch depends; metrics by their names, in lines
//   fit.callback.I            the name of the callback I; its texts are under fit.text.I.NAME
//   fit.stopped               why a callback has ended the run
#pragma once

#include <string>

namespace heddle::fit_detail {

inline constexpr const char* kEpochs = "fit.history.epochs";
inline constexpr std::string kHistory = "fit.history.", kGenerator = "fit.generator.",
                             kValues = "fit.values.", kCallback = "fit.callback.", kNumber = "fit.number.",
                             kOfRank = "fit.of_rank.", kText = "fit.text.", kStopped = "fit.stopped",
                             kBuffer = "fit.buffer.", kSetting = "fit.setting.", kMetrics = "metrics",
                             kBatches = "batches";

}  // namespace heddle::fit_detail
