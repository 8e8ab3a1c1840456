// What a backward pass sets while it runs.
#pragma once

#include <memory>
#include <vector>

#include "autograd/tape.h"

namespace heddle::operators_detail {

// While one lives, a pass is in the node. Whoever frees the node meanwhile, as a hook that runs the same tape may, frees it then.
class InNode {
 public:
  explicit InNode(Node& node) : node_(node) { ++node_.running; }
  ~InNode();
  InNode(const InNode&) = delete;
  InNode& operator=(const InNode&) = delete;

 private:
  Node& node_;
};

// How a backward pass runs Backward functions.
struct BackwardMode {
  bool recorded;      // what they call goes on the tape
  bool lends_memory;  // they may compute in memory lent for a leaf's gradient
};

using MadeGradients = std::vector<std::shared_ptr<Storage>>;  // what make_gradient() gave to a Backward

// While one lives, its thread runs the Backward of `node`.
class RunsBackward {
 public:
  RunsBackward(const Node& node, BackwardMode mode);
  ~RunsBackward();
  RunsBackward(const RunsBackward&) = delete;
  RunsBackward& operator=(const RunsBackward&) = delete;

  static const Node* node();     // null while none runs on this thread
  static MadeGradients& made();  // while one runs
  static BackwardMode mode();

 private:
  const Node* outer_node_;
  BackwardMode outer_mode_;
  MadeGradients made_;
  MadeGradients* outer_made_;
};

// While one lives, operators called on its thread are recorded, or are not.
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
