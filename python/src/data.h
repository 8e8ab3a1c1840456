// Datasets as Python objects.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <heddle/data/loader.h>

#include "holders.h"

namespace heddle::python {

// `held`: the Python objects that the dataset, and nothing else in it, has references to. The garbage collector finds them.
struct PythonDataset {
  std::shared_ptr<const Dataset> dataset;
  std::vector<PyObject*> held = {};
};

// A loader, and the Python object of its dataset, which it has a reference to.
class PythonLoader : public Locked<Loader> {
 public:
  PythonLoader(std::shared_ptr<Loader> loader, PyObject* dataset)
      : Locked(std::move(loader)), dataset_(dataset) {}
  // Whether no call is under way and no op reads the dataset. What is true stays so until the caller releases the GIL.
  bool is_idle() const {
    if (object().use_count() != 1 || !mutex()->try_lock()) return false;
    const std::lock_guard guard(*mutex(), std::adopt_lock);
    return object()->is_idle();
  }
  PyObject* dataset() const { return dataset_; }

 private:
  PyObject* dataset_;
};

}  // namespace heddle::python
