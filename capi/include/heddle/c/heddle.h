// Arrays, operators, gradients, training, communication and stores for programs in C and in languages that call C: link with
// libheddle.so and libheddle_engine.so (heddle.pc, or the CMake target heddle::c). What <heddle/c/engine.h> says of calls,
// handles, errors and threads holds here too; both libraries share engines, vars and errors, and are of one version.
//
// An array belongs to an engine. When that was destroyed, calls on the array fail with HEDDLE_BAD_HANDLE, except for
// those that describe, copy and destroy it.
#pragma once

#include <heddle/c/array.h>
#include <heddle/c/array_dlpack.h>
#include <heddle/c/array_file.h>
#include <heddle/c/array_ops.h>
#include <heddle/c/autograd.h>
#include <heddle/c/checkpoint.h>
#include <heddle/c/communicator.h>
#include <heddle/c/engine.h>
#include <heddle/c/gpu.h>
#include <heddle/c/kvstore.h>
#include <heddle/c/metric.h>
#include <heddle/c/module.h>
#include <heddle/c/operator.h>
#include <heddle/c/optimizer.h>
#include <heddle/c/random.h>
#include <heddle/c/report.h>
#include <heddle/c/row_sparse.h>
#include <heddle/c/trainer.h>
