#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <unistd.h>
#include <utility>
#include <vector>

#include <heddle/array_op.h>
#include <heddle/engine.h>
#include <heddle/log.h>
#include <heddle/summary_writer.h>

#include "logging/event_file.h"
#include "logging/records.h"

namespace heddle {

using namespace nn_detail;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void check_no_zero(const char* what, const std::string& text) {
  if (text.find('\0') != std::string::npos)
    throw InvalidArgument(std::string("SummaryWriter: the ") + what + " has a zero byte, which no path has");
}

std::string file_in(const std::string& folder, const std::string& suffix) {
  check_no_zero("folder", folder);
  check_no_zero("suffix", suffix);
  static std::atomic<int> count{0};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("SummaryWriter: the folder '" + folder + "' cannot be made: " + error.message());
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string name = "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now())) + "." +
                           host + "." + std::to_string(::getpid()) + "." + std::to_string(count++) + suffix;
  return (std::filesystem::path(folder) / name).string();
}

// An array in memory that an op on a CPU reads, as it is now, of a dtype that the op can read.
NDArray readable(const NDArray& array, DType dtype) {
  NDArray on_cpu = array.detach();
  if (on_cpu.device().kind != DeviceKind::cpu) on_cpu = on_cpu.copy_to(cpu());
  return on_cpu.dtype() == dtype ? on_cpu.contiguous() : on_cpu.astype(dtype);
}

void check_array(const char* method, const NDArray& array) {
  if (!array.defined()) ndarray_detail::refuse_undefined(method);
}

// Several pictures of one size, and how they stand in one.
struct Tiles {
  std::int64_t count = 1, height, width, columns = 1;
  int channels;
  bool channels_last;
};

Tiles tiles_of(const NDArray& image, bool channels_last) {
  const Shape& shape = image.shape();
  const int axes = shape.size();
  const auto refuse = [&](const std::string& wanted) {
    throw InvalidArgument("SummaryWriter::image: the image is " + std::string(name_of(image.dtype())) + " " +
                          shape.to_string() + "; want " + wanted);
  };
  if (axes < 2 || axes > 4)
    refuse(channels_last ? "(H, W), (H, W, C) or (N, H, W, C)" : "(H, W), (C, H, W) or (N, C, H, W)");
  Tiles tiles{.height = 0, .width = 0, .channels = 1, .channels_last = channels_last || axes == 2};
  const int first = axes == 4 ? 1 : 0;
  if (axes == 4) tiles.count = shape[0];
  const int rows = tiles.channels_last ? first : first + 1;
  tiles.height = shape[rows];
  tiles.width = shape[rows + 1];
  const std::int64_t channels = axes == 2 ? 1 : shape[tiles.channels_last ? axes - 1 : first];
  if (channels != 1 && channels != 3 && channels != 4) refuse("1, 3 or 4 channels");
  tiles.channels = static_cast<int>(channels);
  while (tiles.columns * tiles.columns < tiles.count) ++tiles.columns;
  constexpr std::int64_t kMost = 1 << 15;  // pixels along an axis
  const std::int64_t lines = (tiles.count + tiles.columns - 1) / tiles.columns;
  if (tiles.height < 1 || tiles.width < 1 || tiles.count < 1 || tiles.height > kMost / lines ||
      tiles.width > kMost / tiles.columns)
    refuse("1 to " + std::to_string(kMost) + " pixels along each axis of all pictures together");
  if (image.dtype() != DType::u8 && !is_floating(image.dtype()) && image.dtype() != DType::boolean)
    refuse("u8, bool or a floating dtype");
  return tiles;
}

std::uint8_t level(std::uint8_t value) { return value; }
std::uint8_t level(float value) {  // NaN is black
  return static_cast<std::uint8_t>(std::lround((value > 0 ? std::min(value, 1.0f) : 0.0f) * 255));
}

template <class T> Picture picture_of(const Tiles& tiles, const T* from) {
  const std::int64_t lines = (tiles.count + tiles.columns - 1) / tiles.columns, c = tiles.channels;
  Picture picture{
      .height = lines * tiles.height, .width = tiles.columns * tiles.width, .channels = tiles.channels};
  picture.pixels.resize(static_cast<std::size_t>(picture.height * picture.width * c));
  const std::int64_t plane = tiles.height * tiles.width;
  for (std::int64_t i = 0; i < tiles.count; ++i)
    for (std::int64_t y = 0; y < tiles.height; ++y)
      for (std::int64_t x = 0; x < tiles.width; ++x)
        for (std::int64_t k = 0; k < c; ++k) {
          const std::int64_t at = y * tiles.width + x;
          const std::int64_t source = i * plane * c + (tiles.channels_last ? at * c + k : k * plane + at);
          const std::int64_t row = i / tiles.columns * tiles.height + y,
                             column = i % tiles.columns * tiles.width + x;
          picture.pixels[static_cast<std::size_t>((row * picture.width + column) * c + k)] =
              level(from[source]);
        }
  return picture;
}

}  // namespace

struct SummaryWriter::State {
  using Make = std::function<std::string()>;  // makes a record; runs in an op

  explicit State(const std::string& path)
      : file(std::make_shared<EventFile>(path)), engine(current_engine()) {
    order = engine.new_var();
  }

  void check_tag(const char* method, const std::string& tag) const {
    if (tag.empty()) throw InvalidArgument(std::string(method) + ": the tag is empty");
  }

  // Pushes an op that makes a record and writes it behind those before. An array's error, with which the op is skipped, stays
  // in a var of the record, since later records overwrite the error of `order`.
  void push(const char* name, const char* method, const std::vector<NDArray>& reads, Make make) {
    const std::lock_guard guard(mutex);
    if (closed) throw InvalidArgument(std::string(method) + ": the writer is closed");
    for (const NDArray& one : reads)
      if (&one.engine() != &engine)
        throw InvalidArgument(std::string(method) + ": the array belongs to another engine than the writer");
    if (unfinished.size() >= sweep_at) sweep();
    Access access = array_access(name, reads, {});
    Unfinished record{engine.new_var(), std::make_shared<std::atomic<bool>>(false), ++count};
    access.mutate.add(order);
    access.mutate.add(record.var);
    engine.push(
        [to = file, reads, make = std::move(make), written = record.written] {
          to->append(make());
          written->store(true);
        },
        access, CallSite::current());
    unfinished.push_back(std::move(record));
  }

  // Forgets records that are written, and of those that have failed all but the first, whose error flush() throws. Call with
  // `mutex` locked.
  void sweep() {
    bool failed = false;
    std::erase_if(unfinished, [&](const Unfinished& one) {
      if (one.written->load()) return true;
      if (!engine.error_of(one.var).exception || !std::exchange(failed, true)) return false;
      try {
        engine.wait(one.var);  // at once; else the engine would say that nobody has waited for the error
      } catch (...) {
      }
      return true;
    });
    sweep_at = 2 * unfinished.size() + 64;
  }

  void flush() {
    std::exception_ptr first;
    const auto wait_for = [&](const Var& var) {
      try {
        engine.wait(var);
      } catch (const WouldDeadlock&) {
        throw;
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    };
    std::vector<Unfinished> waited;
    {
      const std::lock_guard guard(mutex);
      waited = unfinished;
    }
    for (const Unfinished& one : waited) wait_for(one.var);
    if (!waited.empty()) {
      const std::lock_guard guard(mutex);
      std::erase_if(unfinished, [&](const Unfinished& one) { return one.number <= waited.back().number; });
    }
    if (first) {
      engine.clear_error(order);
      std::rethrow_exception(first);
    }
    file->check();
  }

  struct Unfinished {
    Var var;
    std::shared_ptr<std::atomic<bool>> written;
    std::int64_t number;
  };
  const std::shared_ptr<EventFile> file;
  Engine& engine;
  Var order;         // mutated by each op, so that they run in the order of the calls
  std::mutex mutex;  // guards what is below; the engine's locks may be taken while it is held
  std::vector<Unfinished> unfinished;  // records whose ops have not run yet, or were skipped, and some others
  std::size_t sweep_at = 64;           // how many there are when those that are written are removed
  std::int64_t count = 0;
  bool closed = false;
};

SummaryWriter::SummaryWriter(const std::string& folder, const SummaryWriterOptions& options, Where where) {
  const CallSite site(where);
  state_ = std::make_unique<State>(file_in(folder, options.suffix));
  state_->file->append(version_record(now()));
  if (options.from_step >= 0) state_->file->append(start_record({now(), options.from_step}));
}

SummaryWriter::~SummaryWriter() {
  try {
    close();
  } catch (const std::exception& error) {
    write_log(std::string("SummaryWriter: ") + error.what());
  }
}

void SummaryWriter::scalar(const std::string& tag, double value, std::int64_t step, Where where) {
  const CallSite site(where);
  state_->check_tag("SummaryWriter::scalar", tag);
  state_->push("summary scalar", "SummaryWriter::scalar", {},
               [=, time = RecordTime{now(), step}] { return scalar_record(time, tag, value); });
}

void SummaryWriter::scalar(const std::string& tag, const NDArray& value, std::int64_t step, Where where) {
  const CallSite site(where);
  state_->check_tag("SummaryWriter::scalar", tag);
  check_array("SummaryWriter::scalar", value);
  if (value.size() != 1)
    throw InvalidArgument("SummaryWriter::scalar: the array is " + value.shape().to_string() +
                          "; want one element");
  const NDArray number = readable(value, DType::f64);
  state_->push("summary scalar", "SummaryWriter::scalar", {number}, [=, time = RecordTime{now(), step}] {
    return scalar_record(time, tag, *number.data<const double>());
  });
}

void SummaryWriter::histogram(const std::string& tag, const NDArray& values, std::int64_t step, Where where) {
  const CallSite site(where);
  state_->check_tag("SummaryWriter::histogram", tag);
  check_array("SummaryWriter::histogram", values);
  const bool narrow = values.dtype() == DType::f32 || is_half(values.dtype());
  const NDArray all = readable(values, narrow ? DType::f32 : DType::f64);
  state_->push("summary histogram", "SummaryWriter::histogram", {all}, [=, time = RecordTime{now(), step}] {
    return histogram_record(time, tag,
                            narrow ? histogram_of(all.data<const float>(), all.size())
                                   : histogram_of(all.data<const double>(), all.size()));
  });
}

void SummaryWriter::image(const std::string& tag, const NDArray& image, std::int64_t step, bool channels_last,
                          Where where) {
  const CallSite site(where);
  state_->check_tag("SummaryWriter::image", tag);
  check_array("SummaryWriter::image", image);
  const Tiles tiles = tiles_of(image, channels_last);
  const bool bytes = image.dtype() == DType::u8;
  const NDArray all = readable(image, bytes ? DType::u8 : DType::f32);
  state_->push("summary image", "SummaryWriter::image", {all}, [=, time = RecordTime{now(), step}] {
    return image_record(time, tag,
                        bytes ? picture_of(tiles, all.data<const std::uint8_t>())
                              : picture_of(tiles, all.data<const float>()));
  });
}

void SummaryWriter::text(const std::string& tag, const std::string& markdown, std::int64_t step,
                         Where where) {
  const CallSite site(where);
  state_->check_tag("SummaryWriter::text", tag);
  state_->push("summary text", "SummaryWriter::text", {},
               [=, time = RecordTime{now(), step}] { return text_record(time, tag, markdown); });
}

void SummaryWriter::hyperparameters(const std::map<std::string, HyperParameter>& values,
                                    const std::vector<std::string>& metrics, Where where) {
  const CallSite site(where);
  for (const std::string& record : hyperparameter_records(now(), values, metrics))
    state_->push("summary hyperparameters", "SummaryWriter::hyperparameters", {},
                 [record] { return record; });
}

void SummaryWriter::graph(Module& module, std::span<const NDArray> inputs, Where where) {
  const CallSite site(where);
  const std::string record = graph_record(now(), module_graph(module, inputs));
  state_->push("summary graph", "SummaryWriter::graph", {}, [record] { return record; });
}

void SummaryWriter::graph(Module& module, std::initializer_list<NDArray> inputs, Where where) {
  graph(module, std::span(inputs.begin(), inputs.size()), where);
}

void SummaryWriter::flush() { state_->flush(); }

void SummaryWriter::close() {
  {
    const std::lock_guard guard(state_->mutex);
    if (std::exchange(state_->closed, true)) return;
  }
  try {
    flush();
  } catch (const WouldDeadlock&) {
    throw;  // ops that are still to come write to the file, and the last one closes it
  } catch (...) {
    state_->file->close();
    throw;
  }
  state_->file->close();
}

const std::string& SummaryWriter::path() const { return state_->file->path(); }

}  // namespace heddle
