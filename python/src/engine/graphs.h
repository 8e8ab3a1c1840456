// Graphs and their slots as Python objects. Each object keeps its engine alive.
#pragma once

#include <memory>

#include <heddle/graph.h>

#include "engine/engines.h"

namespace heddle::python {

using PythonSlotValue = std::shared_ptr<Reference>;
struct PythonSlot {
  Slot<PythonSlotValue> slot;
  std::shared_ptr<Engine> engine;
};

struct PythonGraph {
  Graph graph;
  std::shared_ptr<Engine> engine;
};

}  // namespace heddle::python
