// The parts of the Python extension module heddle._heddle, each of which is defined in a file of its own.
#pragma once

#include "interpreter.h"

namespace heddle::python {

void bind_operators(nb::module_& m);
void bind_autograd(nb::module_& m);
void bind_metrics(nb::module_& m);
void bind_modules(nb::module_& m);
void bind_logging(nb::module_& m);  // SummaryWriter, pictures
void bind_communicators(nb::module_& m);
void bind_stores(nb::module_& m);
void bind_trainers(nb::module_& m);     // optimizers, trainers
void bind_training(nb::module_& m);     // schedules, clipping, averages
void bind_compression(nb::module_& m);  // folding, pruning, quantization
void bind_data(nb::module_& m);         // datasets, loaders
void bind_data_files(nb::module_& m);   // images, tables, text, sound, records
void bind_files(nb::module_& m);        // safetensors, npy and checkpoints
void bind_trace(nb::module_& m);
void bind_reports(nb::module_& m);  // the memory report, options for printing

}  // namespace heddle::python
