// Layers that resample, pad, drop channels, and make bags of rows.
#include <cmath>
#include <cstdint>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/layers.h>
#include <heddle/ops.h>
#include <heddle/sequential.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

using Floats = std::vector<float>;
Floats of(const NDArray& x) { return x.to_vector<float>(); }

}  // namespace

TEST_CASE("layers that resample are the operators") {
  const NDArray x = Generator(1).normal({2, 4, 3, 5});
  CHECK(of(Upsample()(x)) == of(interpolate(x, {.scale = {2}})));
  CHECK(Upsample({.size = {4, 9}})(x).shape() == Shape{2, 4, 4, 9});
  CHECK(of(Upsample({.scale = 1.5, .mode = Interpolation::linear, .align_corners = true})(x)) ==
        of(interpolate(x, {.scale = {1.5}, .mode = Interpolation::linear, .align_corners = true})));
  CHECK(Upsample({.mode = Interpolation::nearest_exact}).to_string() == "Upsample(mode 'nearest-exact')");
  CHECK(Upsample()(ones({1, 2, 3})).shape() == Shape{1, 2, 6});
  CHECK(of(PixelShuffle(2)(x)) == of(pixel_shuffle(x, 2)));
  CHECK(of(PixelUnshuffle(2)(PixelShuffle(2)(x))) == of(x));
  CHECK(message_of<InvalidArgument>([] { Upsample({.size = 0}); }) == "Upsample: size is 0; want 1 or more");
  CHECK(message_of<InvalidArgument>([&] {
          PixelShuffle(2)(ones({4, 4}));
        }) == "PixelShuffle(2): the input is f32 (4, 4), wanted is (batch..., channels, height, width)");
}

TEST_CASE("Upsample takes a size or a scale, and refuses what its operator would") {
  const auto why = [](const UpsampleOptions& options) {
    return message_of<InvalidArgument>([&] { Upsample layer(options); });
  };
  CHECK(why({.size = 3, .scale = 5}) == "Upsample: size and scale are given; want one of them");
  CHECK(why({.size = {1, 2, 3, 4}}) == "Upsample: size is (1, 2, 3, 4); want 1 to 3 numbers");
  CHECK(why({.scale = std::nan("")}) == "Upsample: scale is nan; want a number above 0");
  CHECK(why({.scale = 0}) == "Upsample: scale is 0; want a number above 0");
  CHECK(why({.align_corners = true}) == "Upsample: align_corners with mode nearest; want linear or cubic");
  CHECK(message_of<InvalidArgument>([] { make_layer("Upsample", {Dims{}}); }) ==
        "Upsample: size is (); want 1 to 3 numbers");
  CHECK(Upsample({.scale = 3})(ones({1, 2, 3})).shape() == Shape{1, 2, 9});
  CHECK(Upsample({.scale = 1.5}).to_string() == "Upsample(scale 1.5)");
  CHECK(Upsample().to_string() == "Upsample");
}

TEST_CASE("layers that could not be called are refused when they are made") {
  const auto why = [](auto make) { return message_of<InvalidArgument>(make); };
  CHECK(why([] { Conv2d(4, 3, 3, {.groups = 2}); }) == "Conv2d: 2 groups do not divide 3 outputs");
  CHECK(why([] { Conv2d(kInferred, 3, 3, {.groups = 2}); }) == "Conv2d: 2 groups do not divide 3 outputs");
  CHECK(why([] {
          Conv2d(1, 1, 3, {.stride = {1, 2}, .padding = "same"});
        }) == "Conv2d: padding is 'same' and a stride 2; 'same' wants strides of 1");
  CHECK(why([] { ConvTranspose2d(3, 4, 3, {.groups = 2}); }) ==
        "ConvTranspose2d: 2 groups do not divide 3 channels");
  CHECK(why([] {
          ConvTranspose2d(1, 1, 3, {.stride = {2, 1}, .output_padding = 1});
        }) ==
        "ConvTranspose2d: stride 1, dilation 1, output_padding 1; wanted output_padding below stride or "
        "dilation");
  CHECK(why([] { MaxPool2d(2, 2, 5); }) == "MaxPool2d: kernel 2, padding 5; wanted 0 to half the kernel");
  CHECK(why([] { AvgPool1d(3, 1, 2); }) == "AvgPool1d: kernel 3, padding 2; wanted 0 to half the kernel");
  CHECK(why([] { EmbeddingBag(4, 2, {.mode = BagMode::max, .sparse_grad = true}); }) ==
        "EmbeddingBag: sparse_grad with mode max; want sum or mean");
  CHECK(ConvTranspose2d(2, 4, 3, {.output_padding = 1, .dilation = 2, .groups = 2})(ones({1, 2, 4, 4}))
            .shape() == Shape{1, 4, 9, 9});
}

TEST_CASE("layers that pad leave batch and channels alone") {
  const NDArray x = arange(1, 4).view_as({1, 1, 3});
  CHECK(of(ZeroPad(1)(x)) == Floats{0, 1, 2, 3, 0});
  CHECK(of(ZeroPad(0, 2)(x)) == Floats{1, 2, 3, 0, 0});
  CHECK(of(ReflectionPad(2)(x)) == Floats{3, 2, 1, 2, 3, 2, 1});
  CHECK(of(ReplicationPad(2, 1)(x)) == Floats{1, 1, 1, 2, 3, 3});
  CHECK(of(CircularPad(1)(x)) == Floats{3, 1, 2, 3, 1});
  CHECK(ZeroPad({1, 2}, {0, 3})(ones({2, 3, 4, 5})).shape() == Shape{2, 3, 5, 10});
  CHECK(ZeroPad({1, 2})(ones({2, 3, 4, 5})).shape() == Shape{2, 3, 6, 9});
  CHECK(message_of<InvalidArgument>([&] {
          ZeroPad({1, 2})(x);
        }) ==
        "ZeroPad: before is (1, 2), the input is (1, 1, 3); want one number, or one for each axis behind the "
        "channels");
  CHECK(ZeroPad(1).to_string() == "ZeroPad(1)");
}

TEST_CASE("Unflatten splits an axis, and Identity changes nothing") {
  const NDArray x = arange(12).view_as({2, 6});
  CHECK(Unflatten(1, {2, 3})(x).shape() == Shape{2, 2, 3});
  CHECK(Unflatten(-1, {-1, 2})(x).shape() == Shape{2, 3, 2});
  CHECK(Unflatten(0, 2)(x).shape() == Shape{2, 6});
  CHECK(Flatten()(Unflatten(1, {2, 3})(x)).shape() == x.shape());
  CHECK(
      message_of<InvalidArgument>([&] {
        Unflatten(1, {4, 2})(x);
      }) ==
      "Unflatten(1, (4, 2)): the input is f32 (2, 6), wanted is an array whose axis 1 has the sizes (4, 2)");
  CHECK_THROWS_AS(Unflatten(2, {1, 1})(x), InvalidArgument);
  CHECK_THROWS_AS(Unflatten(1, {-1, -1})(x), InvalidArgument);
  CHECK(Identity()(x).storage() == x.storage());
}

TEST_CASE("layers that drop draw in training alone, from their own generator") {
  Generator one(1), two(1);
  const NDArray x = ones({20, 30, 2, 2});
  Sequential net{Dropout2d(0.5, one)};
  CHECK(of(net(x)) == of(channel_dropout(x, 0.5, two, true)));
  net.train(false);
  CHECK(net(x).storage() == x.storage());
  CHECK(of(AlphaDropout(0.5, one)(x)) == of(alpha_dropout(x, 0.5, two, true)));
  CHECK(of(FeatureAlphaDropout(0.5, one)(x)) == of(feature_alpha_dropout(x, 0.5, two, true)));
  CHECK(of(GaussianDropout(0.5, one)(x)) == of(gaussian_dropout(x, 0.5, two, true)));
  CHECK(of(GaussianNoise(2, one)(x)) == of(gaussian_noise(x, 2, two, true)));
  CHECK(of(ChannelDropout(0.5, one)(x)) == of(channel_dropout(x, 0.5, two, true)));
  CHECK(message_of<InvalidArgument>([&] { Dropout1d(0.5)(x); }) ==
        "Dropout1d(0.5): the input is f32 (20, 30, 2, 2), wanted is (batch, channels, length)");
  CHECK_THROWS_AS(Dropout3d(0.5)(x), InvalidArgument);
  CHECK(message_of<InvalidArgument>([] { AlphaDropout(1.0); }) ==
        "AlphaDropout: the probability must be in [0, 1), not 1");
  CHECK(message_of<InvalidArgument>([] { GaussianNoise(-1.0); }) ==
        "GaussianNoise: stddev is -1; want 0 or more");
}

TEST_CASE("a layer of bags takes offsets and weights of samples, and a padding row begins at 0") {
  Generator generator(2);
  EmbeddingBag bags(5, 3, {.mode = BagMode::sum, .padding_index = -1}, generator);
  const NDArray weight = bags.parameters().at(0).value;
  CHECK(of(weight.detach()[4]) == Floats{0, 0, 0});
  const NDArray at = array<std::int64_t>({0, 1, 4, 2}, {2, 2}), flat = at.view_as({4});
  const NDArray offsets = array<std::int64_t>({0, 3}), factors = array<float>({1, 2, 3, 4});
  const EmbeddingBagOptions sum_of{.mode = BagMode::sum, .padding_index = -1};
  CHECK(of(bags(at)) == of(embedding_bag(weight, at, {}, sum_of)));
  CHECK(of(bags.run({flat, offsets}).at(0)) == of(embedding_bag(weight, flat, offsets, sum_of)));
  EmbeddingBagOptions weighted = sum_of;
  weighted.per_sample_weights = factors;
  CHECK(of(bags.run({flat, offsets, factors}).at(0)) == of(embedding_bag(weight, flat, offsets, weighted)));
  CHECK(bags.to_string() == "EmbeddingBag(5, 3, mode 'sum', padding_index -1)");
  CHECK(message_of<InvalidArgument>([&] { bags(flat); }) ==
        "embedding_bag: indices are (4,), without offsets; want (bags, length)");
  CHECK_THROWS_AS(bags(ones({2, 2})), InvalidArgument);
  EmbeddingBag sparse(5, 3, {.sparse_grad = true}, generator);
  backward(sum(sparse(at)));
  CHECK(row_sparse_grad(sparse.parameters().at(0).value).defined());
  Embedding lookup(4, 2, {.padding_index = 0}, generator);
  CHECK(of(lookup(array<std::int64_t>({0}))) == Floats{0, 0});
  backward(sum(lookup(array<std::int64_t>({0, 1}))));
  CHECK(of(grad(lookup.parameters().at(0).value)[0]) == Floats{0, 0});
  CHECK(message_of<InvalidArgument>([] { Embedding(4, 2, {.padding_index = 4}); }) ==
        "Embedding: padding_index is 4 for 4 rows; want -4 to 3");
}
