// The graph of a module: what its layers and operators take from each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle::nn_detail {

struct GraphNode {
  enum class Kind : std::uint8_t { input, module, op };
  Kind kind = Kind::module;
  std::string path{};                           // unique: "encoder.0", "dense_0"
  std::string name{};                           // "Dense", "concat"
  std::string text{};                           // "Dense(784, 128, relu)"
  std::vector<std::size_t> inputs{};            // nodes, all before this one
  std::vector<std::optional<Shape>> outputs{};  // nullopt: not known. A size of -1 is not known
  std::int64_t parameters = 0;                  // elements; -1: not known yet
  bool is_output = false;
};

// In an order in which each node comes after its inputs. With inputs the module is called once, in inference and without a tape.
std::vector<GraphNode> module_graph(Module& module, std::span<const NDArray> inputs);

}  // namespace heddle::nn_detail
