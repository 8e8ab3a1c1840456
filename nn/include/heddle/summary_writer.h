// SummaryWriter: numbers, histograms, pictures, texts and graphs of a training run, in files that TensorBoard reads.
//
//   SummaryWriter writer("runs/1");
//   writer.scalar("loss", loss, trainer.steps());  // does not wait for the loss
//   writer.close();
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <heddle/module.h>

namespace heddle {

using HyperParameter = std::variant<bool, std::int64_t, double, std::string>;

struct SummaryWriterOptions {
  std::string suffix = {};  // of the file's name, which begins "events.out.tfevents"
  // Not below 0: TensorBoard leaves out what other files of the folder have of this step and later ones, as after a resume.
  std::int64_t from_step = -1;
};

// Writes records of one run to a new file in a folder, in the order of the calls. A call with an array reads it as it is at the call, by an op, and returns
// at once; so errors come later: that of an array whose record is missing, and that of a file which cannot be written, at flush() or close().
// Records behind a missing one are written all the same. The file always consists of whole records, also when the process is killed.
// Any thread. Calls in a captured step are captured too: make them outside of it.
class SummaryWriter {
 public:
  // Makes the folder and the file. Throws Error with the path and the reason.
  explicit SummaryWriter(const std::string& folder, const SummaryWriterOptions& options = {},
                         Where where = Where::current());
  ~SummaryWriter();  // close(); an error goes to the log
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // A number, or the element of an array with one; kept as f32. The methods throw InvalidArgument for an empty tag, for arrays that are undefined or do not fit,
  // and after close().
  void scalar(const std::string& tag, double value, std::int64_t step, Where where = Where::current());
  void scalar(const std::string& tag, const NDArray& value, std::int64_t step,
              Where where = Where::current());
  // The distribution of an array's elements, of any dtype and shape: counts between limits that grow by a tenth. NaN and infinities do not count.
  void histogram(const std::string& tag, const NDArray& values, std::int64_t step,
                 Where where = Where::current());
  // A picture (H, W), (C, H, W) or, with channels_last, (H, W, C), with 1, 3 or 4 channels; several with an axis in front are put side by side. u8, or numbers
  // from 0 to 1.
  void image(const std::string& tag, const NDArray& image, std::int64_t step, bool channels_last = false,
             Where where = Where::current());
  void text(const std::string& tag, const std::string& markdown, std::int64_t step,
            Where where = Where::current());
  // The arguments of this run, and the tags of scalars by which runs are to be compared. Once a run.
  void hyperparameters(const std::map<std::string, HyperParameter>& values,
                       const std::vector<std::string>& metrics, Where where = Where::current());
  // The layers and operators of a module. With `inputs` the module is called once, in inference, and the graph has the shapes of the call; see to_svg().
  void graph(Module& module, std::span<const NDArray> inputs, Where where = Where::current());
  void graph(Module& module, std::initializer_list<NDArray> inputs = {}, Where where = Where::current());

  // Waits until all records of calls so far are in the file. Throws the first error since the last flush(): that of an array, or Error with the
  // file's path and the number of records that could not be written.
  void flush();
  void close();  // flush(), then closes the file; again: nothing
  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle
