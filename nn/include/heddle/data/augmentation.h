// Augmentation: random changes of images, which a Loader makes while it reads them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <heddle/data/dataset.h>
#include <heddle/data/example_random.h>

namespace heddle {

// What is done to each image (C, H, W) of u8 or f32, in the order of the members.
struct Augmentation {
  // Share of the image's area of a rectangle at a random place, such as {0.08, 1}, with a ratio of its sides between 3/4 and
  // 4/3, which is then resized: needs resize. {1, 1}: the whole image. (Szegedy et al., 2015.)
  std::array<double, 2> area = {1, 1};
  std::array<std::int64_t, 2> resize = {0, 0};  // height and width, bilinear; {0, 0}: as it is
  std::int64_t padding = 0;                     // pixels of value 0 around the image
  std::array<std::int64_t, 2> crop = {0, 0};    // height and width, at a random place; {0, 0}: no crop
  bool centre = false;                          // the crop is at the centre
  double flip = 0;                              // probability of exchanging left and right
  // (x - mean) / std, one number for all channels or one each; the result is f32. u8 is divided by 255 before.
  std::vector<double> mean = {}, std = {};
  double erase = 0;  // probability of setting 2 to 33 % of the image, a rectangle, to 0 (Zhong et al., 2017)

  // The same without chance, for evaluation: the whole image, the crop at the centre, no flip, no erasing.
  Augmentation evaluation() const;
};

// The result of an augmentation on images of this dtype and shape (C, H, W), whose sizes may be kInferred. Throws
// InvalidArgument, which names the member, for values out of range and for images that are too small.
ExampleArray augmented(const Augmentation& augmentation, const ExampleArray& image);

// One image, changed with these random numbers: for tests and for looking at the results.
NDArray augment(const Augmentation& augmentation, const NDArray& image, ExampleRandom random,
                Where where = Where::current());

}  // namespace heddle
