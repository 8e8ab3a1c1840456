// The base class of all layers: functions on arrays with parameters of their own.
#pragma once

#include <string>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/ndarray.h>

namespace heddle {

struct Parameter {
  std::string name;  // a path: "0.weight"
  NDArray value;     // a leaf that requires a gradient
};

class Layer {
 public:
  virtual ~Layer() = default;
  // The first axis of x is the batch: (batch, features) or (batch, channels, height, width). Throws InvalidArgument
  // naming the layer and the shapes. All ops of the layer name `where`.
  NDArray operator()(const NDArray& x, Where where = Where::current()) {
    const CallSite site(where);
    return forward(x);
  }

  virtual std::vector<Parameter> parameters() const { return {}; }
  virtual void train(bool on = true) { static_cast<void>(on); }  // training or inference; training at first
  virtual std::string to_string() const = 0;                     // "Dense(784, 128)"

 protected:
  // What the layer computes. Only operator() calls it, so that errors name the line of the call.
  virtual NDArray forward(const NDArray& x) = 0;
};

}  // namespace heddle
