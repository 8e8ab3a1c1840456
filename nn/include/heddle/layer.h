// Layer: a module of the library that is described in the registry of layers. The description prints it, makes its parameters, and
// checks what it is given. A size that is kInferred is found at the first call:
//
//   Sequential net{Dense(kInferred, 128, {.relu = true}), Dense(kInferred, 10)};
//   net(images);  // Dense(784, 128, relu), Dense(128, 10)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/layer_registry.h>
#include <heddle/module.h>

namespace heddle {

// A size that a layer finds at its first call, in the shape of its input. Until then its parameters have no shapes: parameters()
// and state() of every module that holds it throw InvalidArgument with the parameter's path.
inline constexpr std::int64_t kInferred = -1;

namespace nn_detail {
struct LayerState;
}

// The complete arguments of a layer's constructor, in the order of the registry.
struct LayerCall {
  const LayerInfo* info;
  OperatorValues values;
  Where where = Where::current();  // the line that draws the initial values
  // Sizes that shapes in the registry name and that are no arguments.
  std::vector<std::pair<std::string, OperatorValue>> sizes{};

  const OperatorValue& value(std::string_view name) const;  // of an argument
};

class Layer : public Module {
 public:
  // Makes and registers the parameters and buffers. Throws InvalidArgument for sizes that do not fit together.
  explicit Layer(const LayerCall& call);
  const LayerInfo& info() const;
  const Layer* as_layer() const override { return this; }
  OperatorValues arguments() const;        // of the constructor, one for each of info().arguments
  std::string to_string() const override;  // "Conv2d(1, 8, 3, stride 2)": no argument that has its default

 protected:
  // What the layer computes of x, whose shape follows LayerInfo::input. A layer with more inputs or outputs has compute_all()
  // instead, whose first output is the result of a call with one array.
  virtual NDArray compute(const NDArray& x);
  // One input for each of LayerInfo, undefined where it is missing, and one output for each.
  virtual std::vector<NDArray> compute_all(std::span<const NDArray> inputs);
  // Arguments of the constructor, by name. integers: `count` numbers, from a list of as many or from one for all.
  const OperatorValue& value(const char* name) const;  // of any kind; a window as a list
  bool boolean(const char* name) const;
  std::int64_t integer(const char* name) const;
  double real(const char* name) const;
  const std::string& text(const char* name) const;
  Dims integers(const char* name, int count) const;
  std::optional<std::int64_t> optional_integer(const char* name) const;  // nullopt for None
  Dims list(
      const char* name) const;  // as it was given, a single number as a list of one; None: an empty list
  // A parameter or buffer; undefined if the layer is made without it. Throws InvalidArgument if one that every layer of this kind has
  // was removed.
  NDArray array(const char* name) const;
  std::shared_ptr<Module> inside(const char* name) const;  // a child; throws InvalidArgument if there is none
  // `name`: which of more_inputs x is.
  [[noreturn]] void refuse_input(const NDArray& x, const std::string& wanted,
                                 const std::string& name = "the input") const;

 private:
  NDArray forward(const NDArray& x) final;
  std::vector<NDArray> forward_all(std::span<const NDArray> inputs) final;
  void check_count(std::size_t count) const;
  void check_inputs(std::span<const NDArray> inputs);
  template <class Compute> auto checked_call(std::span<const NDArray> inputs, const Compute& compute);
  std::vector<std::string> make_pending(const NDArray& x);
  void unmake(const std::vector<std::string>& names);
  std::shared_ptr<nn_detail::LayerState> state_;  // shared by copies
};

}  // namespace heddle
