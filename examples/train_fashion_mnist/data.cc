#include "data.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <zlib.h>

using heddle::DType;
using heddle::NDArray;

namespace {

constexpr std::int64_t kSide = 28, kPixels = kSide * kSide;
constexpr std::uint8_t kClasses = 10;
// The mean and the standard deviation of all pixels of the training pictures, as fractions of 255.
constexpr float kMean = 0.2860f, kDeviation = 0.3530f;

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw DataError(path + ": " + problem);
}

// An IDX file, compressed or not (zlib reads both alike).
class IdxFile {
 public:
  explicit IdxFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) fail(path_, std::strerror(errno));
  }
  ~IdxFile() { gzclose(file_); }
  IdxFile(const IdxFile&) = delete;
  IdxFile& operator=(const IdxFile&) = delete;

  void read(std::span<std::uint8_t> to) {
    int got = gzread(file_, to.data(), static_cast<unsigned>(to.size()));
    if (got < 0) fail(path_, std::string("cannot be decompressed: ") + error());
    if (static_cast<std::size_t>(got) == to.size()) return;
    fail(path_, "ends after " + std::to_string(gztell(file_)) + " bytes of what it unpacks to; " +
                    std::to_string(to.size() - static_cast<std::size_t>(got)) + " more are wanted");
  }

  void expect_end() {
    std::uint8_t more = 0;
    int got = gzread(file_, &more, 1);
    if (got < 0) fail(path_, std::string("cannot be decompressed: ") + error());
    if (got > 0) fail(path_, "is longer than its header says");
  }

  // Reads and checks the header: the magic number 0x0000080N (unsigned bytes, N dimensions), then N sizes,
  // all big-endian. Returns the first size.
  std::int64_t header(int dimensions) {
    std::uint32_t magic = word(), wanted = 0x800u + static_cast<std::uint32_t>(dimensions);
    if (magic != wanted) {
      fail(path_, "is no IDX file of this kind: its magic number is " + std::to_string(magic) +
                      ", wanted is " + std::to_string(wanted));
    }
    std::int64_t count = word();
    for (int i = 1; i < dimensions; ++i) {
      std::int64_t side = word();
      if (side != kSide) fail(path_, "holds pictures of side " + std::to_string(side) + ", not 28");
    }
    if (count < 1 || count > 10'000'000) fail(path_, "claims to hold " + std::to_string(count) + " items");
    return count;
  }

 private:
  std::uint32_t word() {
    std::array<std::uint8_t, 4> bytes;
    read(bytes);
    std::uint32_t value = 0;
    for (std::uint8_t byte : bytes) value = value << 8 | byte;
    return value;
  }

  const char* error() {
    int code = 0;
    return gzerror(file_, &code);
  }

  std::string path_;
  gzFile file_;
};

std::string find_file(const std::string& directory, const std::string& name) {
  std::string plain = (std::filesystem::path(directory) / name).string();
  std::error_code ignored;
  return !std::filesystem::exists(plain + ".gz", ignored) && std::filesystem::exists(plain, ignored)
             ? plain
             : plain + ".gz";
}

// Pushes an op that reads a file of pictures or labels into an array. If it fails, a wait for the array
// throws its error.
NDArray push_load(const std::string& path, heddle::Shape shape, bool whole, std::uint8_t largest) {
  NDArray array(shape, DType::u8);
  int dimensions = shape.size();
  heddle::array_push("load_idx", {}, {array}, [path, dimensions, whole, largest, array] {
    IdxFile file(path);
    file.header(dimensions);
    std::span<std::uint8_t> bytes(array.data<std::uint8_t>(), static_cast<std::size_t>(array.size()));
    file.read(bytes);
    if (whole) file.expect_end();
    auto bad = std::find_if(bytes.begin(), bytes.end(), [=](std::uint8_t byte) { return byte > largest; });
    if (bad == bytes.end()) return;
    fail(path, "label " + std::to_string(bad - bytes.begin()) + " is " + std::to_string(*bad) +
                   "; the largest is " + std::to_string(largest));
  });
  return array;
}

void gather(const Dataset& from, const NDArray& order, std::int64_t first, const Batch& to) {
  const std::uint8_t* images = from.images.data<const std::uint8_t>();
  const std::uint8_t* labels = from.labels.data<const std::uint8_t>();
  const std::int64_t* permutation = order.defined() ? order.data<const std::int64_t>() : nullptr;
  float* out_images = to.images.data<float>();
  std::uint8_t* out_labels = to.labels.data<std::uint8_t>();
  heddle::parallel_for(to.labels.size(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t source = permutation ? permutation[first + i] : first + i;
      out_labels[i] = labels[source];
      for (std::int64_t p = 0; p < kPixels; ++p) {
        float pixel = static_cast<float>(images[source * kPixels + p]);
        out_images[i * kPixels + p] = pixel * (1 / (255 * kDeviation)) - kMean / kDeviation;
      }
    }
  });
}

}  // namespace

void Dataset::wait() const {
  images.wait();
  labels.wait();
}

Dataset load_dataset(const std::string& directory, const std::string& part, std::int64_t limit) {
  std::string images = find_file(directory, part + "-images-idx3-ubyte");
  std::string labels = find_file(directory, part + "-labels-idx1-ubyte");
  std::int64_t count = IdxFile(images).header(3), label_count = IdxFile(labels).header(1);
  if (count != label_count) {
    fail(labels,
         "holds " + std::to_string(label_count) + " labels for " + std::to_string(count) + " pictures");
  }
  std::int64_t kept = limit > 0 ? std::min(limit, count) : count;
  return {push_load(images, {kept, kSide, kSide}, kept == count, 255),
          push_load(labels, {kept}, kept == count, kClasses - 1)};
}

BatchLoader::BatchLoader(Dataset data, std::int64_t batch_size, Share share, std::size_t ahead)
    : data_(std::move(data)), batch_size_(batch_size), share_(share), ahead_(ahead) {}

std::int64_t BatchLoader::batches() const { return (data_.size() + batch_size_ - 1) / batch_size_; }

void BatchLoader::start(NDArray order, std::int64_t first_batch) {
  order_ = std::move(order);
  gathered_ = first_batch;
  ready_.clear();
}

Batch BatchLoader::next() {
  while (gathered_ < batches() && ready_.size() <= ahead_) push_gather();
  if (ready_.empty()) throw heddle::Error("BatchLoader::next: the epoch is over");
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  return batch;
}

void BatchLoader::push_gather() {
  const std::int64_t start = gathered_ * batch_size_, of = std::min(batch_size_, data_.size() - start);
  const std::int64_t begin = of * share_.rank / share_.ranks, end = of * (share_.rank + 1) / share_.ranks;
  const std::int64_t first = std::min(begin, of - 1), rows = std::max<std::int64_t>(1, end - begin);
  Batch batch{NDArray({rows, 1, kSide, kSide}), NDArray({rows}, DType::u8), first, end - begin, of};
  auto body = [data = data_, order = order_, from = start + first, batch] {
    gather(data, order, from, batch);
  };
  if (order_.defined()) {
    heddle::array_push("gather", {data_.images, data_.labels, order_}, {batch.images, batch.labels},
                       std::move(body));
  } else {
    heddle::array_push("gather", {data_.images, data_.labels}, {batch.images, batch.labels}, std::move(body));
  }
  ready_.push_back(std::move(batch));
  ++gathered_;
}
