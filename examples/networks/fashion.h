// Fashion-MNIST (Xiao et al., 2017): 28 by 28 grey pictures of ten kinds of clothes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/data.h>
#include <heddle/heddle.h>

#include "support.h"

struct Fashion {
  heddle::NDArray train_images, test_images;  // u8 (n, 1, 28, 28)
  heddle::NDArray train_labels, test_labels;  // i64 (n)
};

inline const std::vector<std::string> kFashionNames = {"T-shirt", "trouser", "pullover", "dress", "coat",
                                                       "sandal",  "shirt",   "sneaker",  "bag",   "boot"};

// Reads the four files of the data set in a folder.
inline Fashion read_fashion(const std::string& folder) {
  const auto images = [&](const std::string& part) {
    const heddle::NDArray all = heddle::load_idx(folder + "/" + part + "-images-idx3-ubyte.gz");
    return all.reshape(all.size(0), 1, all.size(1), all.size(2));
  };
  const auto labels = [&](const std::string& part) {
    return heddle::load_idx(folder + "/" + part + "-labels-idx1-ubyte.gz").astype(heddle::DType::i64);
  };
  return {images("train"), images("t10k"), labels("train"), labels("t10k")};
}

inline Description describe_fashion(const std::string& name, const std::string& text) {
  return {.name = name,
          .text = text,
          .quick_data = EXAMPLE_DATA "/fashion",
          .full_data = "/usr/share/datasets/fashion-mnist",
          .how_to_get = "apt install dataset-fashion-mnist"};
}
