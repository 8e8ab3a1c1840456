// The state of a backward pass while it runs.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "autograd/tape.h"
#include "core/autocast.h"

namespace heddle::operators_detail {

// While an InNode lives, a pass runs in the node. If the node is freed meanwhile, as by a hook that runs the
// same tape, its contents are released when the InNode ends.
class InNode {
 public:
  explicit InNode(Node& node) : node_(node) { ++node_.running; }
  ~InNode();
  InNode(const InNode&) = delete;
  InNode& operator=(const InNode&) = delete;

 private:
  Node& node_;
};

// Arrays that Backward functions leave to others of the same pass, by an address that these know. They go with the pass,
// also if it throws.
using KeptInPass = std::unordered_map<const void*, std::vector<NDArray>>;

// How a backward pass runs Backward functions.
struct BackwardMode {
  bool recorded;      // whether operators that a Backward calls go on the tape
  bool lends_memory;  // whether a Backward may compute in memory lent for a leaf's gradient
  KeptInPass* kept;   // of the pass
};

// Memory that make_gradient() returned to a Backward.
using MadeGradients = std::vector<std::shared_ptr<Storage>>;

// While a RunsBackward lives, its thread runs the Backward of `node`, without an Autocast.
class RunsBackward {
 public:
  RunsBackward(const Node& node, BackwardMode mode);
  ~RunsBackward();
  RunsBackward(const RunsBackward&) = delete;
  RunsBackward& operator=(const RunsBackward&) = delete;

  static const Node* node();     // the node whose Backward runs on this thread; null if none does
  static MadeGradients& made();  // memory of the Backward that runs; call only while one runs
  static BackwardMode mode();

 private:
  const PauseAutocast no_autocast_{};
  const Node* outer_node_;
  BackwardMode outer_mode_;
  MadeGradients made_;
  MadeGradients* outer_made_;
};

// While a GradMode lives, operators called on its thread are recorded (on) or not.
class GradMode {
 public:
  explicit GradMode(bool on);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

}  // namespace heddle::operators_detail
