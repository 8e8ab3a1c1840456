// Symbols and models for Python.
#pragma once

#include <string>
#include <vector>

#include <heddle/model.h>
#include <heddle/operator_registry.h>

#include "objects.h"

namespace heddle::python {

// What a module calls its arrays: "x" and those of LayerInfo::more_inputs; a model its inputs.
std::vector<std::string> input_names(const Module& module);

bool is_symbol(nb::handle object);
bool has_symbol(nb::handle sequence);

// A module's call on symbols: a symbol, or with `all` a tuple.
nb::object apply_to_symbols(nb::handle module, const nb::args& args, const nb::kwargs& kwargs, bool all);
// An operator's call, some of whose `count` arguments are symbols or lists of them; null stands for the default. Returns what the
// operator returns, as symbols.
nb::object apply_to_symbols(const OperatorInfo& op, PyObject* const* given, std::size_t count, Where where);

void bind_models(nb::module_& m);

}  // namespace heddle::python
