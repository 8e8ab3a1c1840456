// Calls of modules: what Python passes to them, their results, hooks and summaries.
#pragma once

#include <memory>
#include <vector>

#include <heddle/module.h>

#include "arguments.h"

namespace heddle::python {

// Without super().__init__() there is a Python object and no module in it.
bool is_initialised(nb::handle module);
void check_initialised(nb::handle module);
// Each raises TypeError for another object.
std::shared_ptr<Module> module_in(ArgumentOf of, nb::handle object);
Module& self_in(const char* function, nb::handle self);

// What forward() of a Python class has returned: an array, or a tuple or list of arrays.
std::vector<NDArray> results_in(const Module& module, nb::handle result);

// The device on which a module computes: that of its first array; the default one if it has none yet.
Device place_of(const Module& module);

// Inputs of a call that is made for its shapes: each is an array, or the shape of one of zeros, on the module's device.
std::vector<NDArray> example_inputs(const char* function, const Module& module, const nb::args& inputs,
                                    Where where);

// Binds the methods of Module that call it, or that are told of calls.
void bind_module_calls(nb::module_& m);

}  // namespace heddle::python
