// fit(), its callbacks and checkpoints that are written while training goes on, for Python.
#pragma once

#include "interpreter.h"

namespace heddle::python {

void bind_callbacks(nb::module_& m);
void bind_fit(nb::module_& m);

// What Python callbacks see of a training; null once that is over.
class PythonRun;
// Makes the object that callbacks are given while it lives. Needs the GIL.
class RunScope {
 public:
  RunScope(nb::object net, nb::object trainer);
  ~RunScope();
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;
  // The object of the innermost scope of this thread.
  static nb::object current();
  static PythonRun& current_run();

 private:
  nb::object object_;
  RunScope* outer_;
};

}  // namespace heddle::python
