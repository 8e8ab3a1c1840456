// fold_batch_norms(): batch norms become part of the layers before them, for inference.
//
//   net.train(false);
//   std::cout << fold_batch_norms(net).to_string();
#pragma once

#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle {

struct FoldReport {
  struct Folded {
    std::string norm, into;  // paths: "1", "0"
  };
  struct Kept {
    std::string norm, reason;
  };
  std::vector<Folded> folded{};
  std::vector<Kept> kept{};
  std::string to_string() const;  // a line for each batch norm
};

// Multiplies the weights of each Dense, Conv and ConvTranspose by what the BatchNorm behind it multiplies by, so that the results in inference
// are the same but for rounding, and removes the BatchNorm: an Identity stands for it in a Sequential, a Model has a step less. Works where the
// order is known, in Sequential and Model, here or deep inside; the report names all others. In place: layers are replaced by new ones, whose
// arrays are new. A weight stays trainable or frozen; a bias is frozen if the arrays that became part of it all were. A Dense before a BatchNorm is taken to give (batch, features). Not while other threads
// call the module. Throws InvalidArgument, before anything is changed, if a BatchNorm is in training mode or has not been called yet.
FoldReport fold_batch_norms(Module& net, Where where = Where::current());

}  // namespace heddle
