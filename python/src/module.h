// The parts of the module heddle._heddle.
#pragma once

#include "interpreter.h"

namespace heddle::python {

void bind_operators(nb::module_& m);
void bind_training(nb::module_& m);  // autograd, layers, optimizers
void bind_stores(nb::module_& m);    // communicators and key-value stores
void bind_trainers(nb::module_& m);
void bind_files(nb::module_& m);  // safetensors and checkpoints
void bind_trace(nb::module_& m);

}  // namespace heddle::python
