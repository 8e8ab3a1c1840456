// Images from PNG and JPEG files, as arrays (C, H, W) of u8. Needs libpng and libjpeg where Heddle is built; without one, its
// files are an Error that names the package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/data/dataset.h>

namespace heddle {

struct ImageOptions {
  int channels = 3;  // 1: grey, 3: RGB, whatever the file has; transparency is left out
  std::array<std::int64_t, 2> size = {
      0, 0};                          // height and width of all images, else an error; {0, 0}: they differ
  std::int64_t max_pixels = 1 << 27;  // a file that claims more is refused before memory is taken
};

// Decodes a PNG or JPEG file in memory. Throws Error, which begins with `title`, with the offset of what is wrong.
NDArray decode_image(std::span<const std::byte> bytes, const ImageOptions& options = {},
                     const std::string& title = "image");

// Blocks. Throws Error naming the file and the offset.
NDArray read_image(const std::string& path, const ImageOptions& options = {}, Where where = Where::current());

// Examples {image u8 (C, H, W), label i64 ()} of a list of files.
class ImageFiles : public Dataset {
 public:
  // Files that do not exist are errors of the batch. Throws InvalidArgument for labels of another number.
  ImageFiles(std::vector<std::string> paths, std::vector<std::int64_t> labels, ImageOptions options = {});
  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  std::vector<ExampleArray> arrays() const override;
  Example read(std::int64_t index) const override;
  const std::vector<std::string>& paths() const { return paths_; }
  const std::vector<std::int64_t>& labels() const { return labels_; }

 private:
  std::vector<std::string> paths_;
  std::vector<std::int64_t> labels_;
  ImageOptions options_;
};

// A folder with a folder for each class: its .png, .jpg and .jpeg files, in the order of their names; labels count the
// classes in the order of their names.
class ImageFolder : public ImageFiles {
 public:
  // Reads the names. Throws Error for a folder without such files.
  explicit ImageFolder(const std::string& folder, ImageOptions options = {});
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  struct Listing;
  ImageFolder(Listing listing, ImageOptions options);
  std::vector<std::string> classes_;
};

}  // namespace heddle
