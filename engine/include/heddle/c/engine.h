// The engine for programs in C and in languages that call C: link with libheddle_engine.so (heddle_engine.pc, or the CMake
// target heddle::engine_c). docs/embedding.md shows whole programs. C11, and C++.
//
//   heddle_op_options load = {.struct_size = sizeof load, .mutate = &a, .mutate_count = 1, .name = "load"};
//   heddle_push(engine, read_file, file, close_file, &load, NULL);
//   if (heddle_wait(engine, a, &error) != HEDDLE_OK) ...
//
// Every call may be made from any thread, unless its declaration says otherwise. Each returns a status and writes its
// outputs last. Handles are made by `create`, `copy` and the like and destroyed by the function of their type's name that
// ends in `destroy`; a handle must not be destroyed while another thread's call uses it. No exception leaves a call, and
// none may leave a callback.
//
// A null pointer, a wrong struct_size and a handle of another type are errors. With HEDDLE_CHECK=1 in the environment when
// the library is loaded, so are handles that were destroyed: HEDDLE_BAD_HANDLE. Without it their use is undefined.
//
// In the child of a fork engines made before are dead: what would queue or wait for ops fails, and handles may be destroyed. heddle_engine_default and
// heddle_engine_create make new engines there. The library is never unloaded, not even by dlclose.
#pragma once

#include <heddle/c/core.h>
#include <heddle/c/graph.h>
#include <heddle/c/op.h>
#include <heddle/c/progress.h>
#include <heddle/c/status.h>
#include <heddle/c/stream.h>
#include <heddle/c/trace.h>
