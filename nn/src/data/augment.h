// Augmentation of one image in memory.
#pragma once

#include <cstddef>

#include <heddle/data/augmentation.h>

namespace heddle::data_detail {

// Writes the result, of the dtype and shape augmented(augmentation, image), to `target`. All sizes of `image` are known.
void run_augmentation(const Augmentation& augmentation, const ExampleArray& image, const std::byte* source,
                      ExampleRandom& random, std::byte* target);

}  // namespace heddle::data_detail
