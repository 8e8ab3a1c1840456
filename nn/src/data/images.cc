#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>

#include <heddle/array_error.h>
#include <heddle/data/images.h>

#include "data/image_codec.h"
#include "data/input_file.h"

namespace heddle {

using namespace data_detail;

namespace {

std::string lower_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

void check_image_options(const char* who, const ImageOptions& options) {
  if (options.channels != 1 && options.channels != 3) {
    throw InvalidArgument(std::string(who) + ": channels is " + std::to_string(options.channels) +
                          "; wanted 1 or 3");
  }
  const bool any = options.size[0] == 0 && options.size[1] == 0;
  if (!any && (options.size[0] < 1 || options.size[1] < 1)) {
    throw InvalidArgument(std::string(who) + ": size is (" + std::to_string(options.size[0]) + ", " +
                          std::to_string(options.size[1]) + "); wanted height and width, or zeros");
  }
}

template <class T, int kChannels>
void split_row(const unsigned char* row, std::int64_t width, std::int64_t plane, T* target) {
  for (std::int64_t x = 0; x < width; ++x) {
    for (int c = 0; c < kChannels; ++c) target[c * plane + x] = row[x * kChannels + c];
  }
}

}  // namespace

namespace data_detail {

void check_image_size(std::int64_t height, std::int64_t width, const ImageOptions& options,
                      const std::string& title) {
  const std::string shown = std::to_string(height) + " x " + std::to_string(width) + " pixels";
  if (height < 1 || width < 1 || height > options.max_pixels / width)
    throw Error(title + " claims " + shown + "; at most " + std::to_string(options.max_pixels) +
                " are decoded");
  if (options.size[0] == 0 || (options.size[0] == height && options.size[1] == width)) return;
  throw Error(title + " has " + shown + "; wanted " + std::to_string(options.size[0]) + " x " +
              std::to_string(options.size[1]));
}

void write_row(const unsigned char* row, int channels, std::int64_t y, std::int64_t height,
               std::int64_t width, std::uint8_t* planes) {
  std::uint8_t* const target = planes + y * width;
  if (channels == 1)
    std::memcpy(target, row, static_cast<std::size_t>(width));
  else
    split_row<std::uint8_t, 3>(row, width, height * width, target);
}

}  // namespace data_detail

NDArray decode_image(std::span<const std::byte> bytes, const ImageOptions& options,
                     const std::string& title) {
  check_image_options("decode_image", options);
  const auto begins = [&](std::string_view magic) {
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (begins("\x89PNG\r\n\x1a\n")) return decode_png(bytes, options, title);
  if (begins("\xff\xd8")) return decode_jpeg(bytes, options, title);
  fail_at(title, 0, "neither PNG nor JPEG");
}

NDArray read_image(const std::string& path, const ImageOptions& options, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call(
      "read_image", [&] { return decode_image(read_bytes(path), options, title_of(path)); });
}

ImageFiles::ImageFiles(std::vector<std::string> paths, std::vector<std::int64_t> labels, ImageOptions options)
    : paths_(std::move(paths)), labels_(std::move(labels)), options_(options) {
  check_image_options("ImageFiles", options_);
  if (labels_.size() == paths_.size()) return;
  throw InvalidArgument("ImageFiles: " + std::to_string(labels_.size()) + " labels for " +
                        std::to_string(paths_.size()) + " files");
}

std::vector<ExampleArray> ImageFiles::arrays() const {
  const bool any = options_.size[0] == 0;
  const Shape shape{options_.channels, any ? kInferred : options_.size[0],
                    any ? kInferred : options_.size[1]};
  return {{DType::u8, shape}, {DType::i64, {}}};
}

Example ImageFiles::read(std::int64_t index) const {
  const std::string& path = paths_.at(static_cast<std::size_t>(index));
  const NDArray label(Shape{}, DType::i64);
  *label.data<std::int64_t>() = labels_[static_cast<std::size_t>(index)];
  return {decode_image(read_bytes(path), options_, title_of(path)), label};
}

struct ImageFolder::Listing {
  std::vector<std::string> paths, classes;
  std::vector<std::int64_t> labels;

  // The image files of one class, in the order of their names.
  void add_files(const std::filesystem::path& folder) {
    const std::size_t first = paths.size();
    try {
      for (const std::filesystem::directory_entry& entry :
           std::filesystem::recursive_directory_iterator(folder)) {
        const std::string extension = lower_extension(entry.path());
        std::error_code ignored;  // of a link that leads nowhere
        if (entry.is_regular_file(ignored) &&
            (extension == ".png" || extension == ".jpg" || extension == ".jpeg"))
          paths.push_back(entry.path().string());
      }
    } catch (const std::filesystem::filesystem_error& error) {
      throw Error("ImageFolder: folder '" + folder.string() + "' cannot be read: " + error.code().message());
    }
    std::sort(paths.begin() + static_cast<std::ptrdiff_t>(first), paths.end());
  }

  explicit Listing(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code error, ignored;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (at->is_directory(ignored)) classes.push_back(at->path().filename().string());
    if (error) throw Error("ImageFolder: folder '" + folder + "' cannot be read: " + error.message());
    std::sort(classes.begin(), classes.end());
    for (std::size_t label = 0; label < classes.size(); ++label) {
      add_files(fs::path(folder) / classes[label]);
      labels.resize(paths.size(), static_cast<std::int64_t>(label));
    }
    if (paths.empty())
      throw Error("ImageFolder: folder '" + folder + "' has no folders with .png, .jpg or .jpeg files");
  }
};

ImageFolder::ImageFolder(const std::string& folder, ImageOptions options)
    : ImageFolder(Listing(folder), std::move(options)) {}

ImageFolder::ImageFolder(Listing listing, ImageOptions options)
    : ImageFiles(std::move(listing.paths), std::move(listing.labels), options),
      classes_(std::move(listing.classes)) {}

}  // namespace heddle
