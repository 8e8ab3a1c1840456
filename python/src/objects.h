// The wrappers for Python of C++ objects that are not thread-safe.
#pragma once

#include <heddle/kvstore.h>
#include <heddle/loss_scaler.h>
#include <heddle/optimizer.h>
#include <heddle/random.h>
#include <heddle/trainer.h>

#include "holders.h"

namespace heddle::python {

using PythonGenerator = Locked<Generator>;
using PythonOptimizer = Locked<Optimizer>;
using PythonLossScaler = Locked<LossScaler>;  // a trainer's has the lock of the trainer
using PythonStore = Locked<KVStore>;
using PythonTrainer = Locked<Trainer>;  // a trainer has the same lock as its store

// A schedule that calls a function of Python; empty for None. `function` names the call in errors: a literal.
Schedule schedule_of(const char* function, nb::handle callable);
OptimizerParams params_of(const char* function, const nb::kwargs& kwargs);

}  // namespace heddle::python
