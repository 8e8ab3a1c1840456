// Layers that convolve along one, two or three axes.
#pragma once

#include <cstdint>

#include <heddle/conv.h>
#include <heddle/creation.h>
#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

// stride, padding and dilation are along the axes; one number stands for all. The padding may be "same" or "valid", see Padding.
struct ConvLayerOptions {
  Dims stride = 1;
  Padding padding = 0;
  Dims dilation = 1;
  std::int64_t groups = 1;  // channels in and out are split into so many parts
  bool bias = true, relu = false;
  Init init = Init::he;
  Device device{};
};
using Conv1dLayerOptions = ConvLayerOptions;
using Conv2dLayerOptions = ConvLayerOptions;
using Conv3dLayerOptions = ConvLayerOptions;

// x (batch, in, sizes...) -> (batch, out, sizes'...), as conv1d, conv2d and conv3d. Parameters: weight (out, in / groups, kernel...), bias
// (out). `in` may be kInferred; `kernel` is 3, or {3, 5}.
template <int axes> class Conv : public Layer {
 public:
  explicit Conv(const LayerCall& call);
  Conv(std::int64_t in, std::int64_t out, const Dims& kernel, const ConvLayerOptions& options = {},
       Generator& generator = default_generator(), Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};
extern template class Conv<1>;
extern template class Conv<2>;
extern template class Conv<3>;
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

// Along the axes; one number stands for all.
struct ConvTransposeLayerOptions {
  Dims stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Init init = Init::he;
  Device device{};
};
using ConvTranspose1dLayerOptions = ConvTransposeLayerOptions;
using ConvTranspose2dLayerOptions = ConvTransposeLayerOptions;
using ConvTranspose3dLayerOptions = ConvTransposeLayerOptions;

// x (batch, in, sizes...) -> (batch, out, sizes'...), as conv_transpose1d, conv_transpose2d and conv_transpose3d. Parameters: weight
// (in, out / groups, kernel...), bias (out). `in` may be kInferred.
template <int axes> class ConvTranspose : public Layer {
 public:
  explicit ConvTranspose(const LayerCall& call);
  ConvTranspose(std::int64_t in, std::int64_t out, const Dims& kernel,
                const ConvTransposeLayerOptions& options = {}, Generator& generator = default_generator(),
                Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};
extern template class ConvTranspose<1>;
extern template class ConvTranspose<2>;
extern template class ConvTranspose<3>;
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

}  // namespace heddle
