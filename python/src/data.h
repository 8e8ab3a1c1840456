// Datasets as Python objects.
#pragma once

#include <memory>

#include <heddle/data/loader.h>

#include "holders.h"

namespace heddle::python {

struct PythonDataset {
  std::shared_ptr<const Dataset> dataset;
  operator AnyDataset() const { return dataset; }
};

using PythonLoader = Locked<Loader>;

}  // namespace heddle::python
