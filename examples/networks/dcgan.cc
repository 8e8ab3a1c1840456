// Makes pictures of clothes: DCGAN (Radford et al., ICLR'16) on Fashion-MNIST. The result is a Frechet distance (Heusel et al., NIPS'17),
// that of the normal distributions of a small classifier's features, between pictures that are made and ones that were held out. It is
// given as a part of that of noise, in which each pixel has the mean and the deviation that it has in the data.
#include <algorithm>
#include <cstdio>

#include "fashion.h"
#include "gan.h"

using namespace heddle;

namespace {

constexpr std::int64_t kLatent = 64;

// Noise (batch, 64) -> pictures (batch, 1, 28, 28) in (-1, 1)
Sequential make_generator(std::int64_t width) {
  return Sequential{Dense(kLatent, 4 * width * 7 * 7, {.bias = false}),
                    Unflatten(1, {4 * width, 7, 7}),
                    BatchNorm(4 * width),
                    Relu(),
                    ConvTranspose2d(4 * width, 2 * width, 4, {.stride = 2, .padding = 1, .bias = false}),
                    BatchNorm(2 * width),
                    Relu(),
                    ConvTranspose2d(2 * width, 1, 4, {.stride = 2, .padding = 1}),
                    Tanh()};
}

Sequential make_discriminator(std::int64_t width) {
  return Sequential{Conv2d(1, width, 4, {.stride = 2, .padding = 1}),
                    LeakyRelu(0.2),
                    Conv2d(width, 2 * width, 4, {.stride = 2, .padding = 1, .bias = false}),
                    BatchNorm(2 * width),
                    LeakyRelu(0.2),
                    Flatten(),
                    Dense(2 * width * 7 * 7, 1)};
}

// What the distance looks at: the last hidden layer of a classifier, (batch, features).
struct Features {
  Sequential body, classifier;

  Features(Batches& train, std::int64_t count, int epochs, std::uint64_t seed) {
    Generator initial(seed);
    body = Sequential{Conv2d(1, count / 2, 3, {.padding = 1, .relu = true}, initial),
                      MaxPool2d(2),
                      Conv2d(count / 2, count, 3, {.padding = 1, .relu = true}, initial),
                      MaxPool2d(2),
                      Flatten(),
                      Dense(count * 7 * 7, count, {}, initial)};
    classifier = Sequential{body, Relu(), Dense(count, 10, {.init = Init::xavier}, initial)};
    Trainer trainer(classifier.parameters(),
                    {.optimizer = "adam", .schedule = cosine_schedule(2e-3, epochs * train.size())});
    FitOptions fitting{.epochs = epochs};
    fitting.loss = "cross_entropy", fitting.metrics = {"Accuracy"};
    fit(classifier, trainer, train, fitting);
  }
  NDArray operator()(const NDArray& pictures) {
    return predict(body, {pictures}, {.batch = 200, .inputs = 1})[0].astype(DType::f64);
  }
};

struct Normal {
  NDArray mean, covariance;  // (features), (features, features)
  explicit Normal(const NDArray& rows) : mean(rows.mean({0})) {
    const NDArray centred = rows - mean;
    covariance = matmul(centred.T(), centred) / static_cast<double>(rows.size(0) - 1);
  }
};

// |m1 - m2|^2 + trace(C1 + C2 - 2 (C1 C2)^(1/2))
double frechet_distance(const Normal& a, const Normal& b) {
  const auto root = [](const NDArray& values) { return sqrt(maximum(values, 0)); };
  const std::vector<NDArray> parts = eigh(a.covariance);  // values, vectors
  const NDArray half = matmul(parts[1] * root(parts[0]), parts[1].T());
  const NDArray common = root(eigvalsh(matmul(half, matmul(b.covariance, half))));
  const NDArray traces = sum((a.covariance + b.covariance) * eye(a.mean.size(0), DType::f64));
  return (sum(square(a.mean - b.mean)) + traces - 2 * sum(common)).item<double>();
}

bool run(const Options& options) {
  const Fashion fashion = read_fashion(options.data);
  const auto scaled = [](const NDArray& pictures) { return pictures.astype(DType::f32) / 127.5 - 1; };
  const NDArray held_out = scaled(fashion.test_images);
  const std::int64_t count = held_out.size(0);
  const NDArray known = scaled(fashion.train_images.slice(0, {0, count}));
  Loader train(ArrayDataset({fashion.train_images, fashion.train_labels}),
               {.batch = options.quick ? 20 : 64,
                .shuffle = true,
                .seed = options.seed,
                .drop_last = true,
                .augment = Augmentation{.mean = {0.5}, .std = {0.5}}});  // to -1 .. 1

  Features features(train, options.quick ? 16 : 64, options.quick ? 3 : 2, options.seed);
  const Normal wanted_features(features(held_out));
  const auto distance = [&](const NDArray& pictures) {
    return frechet_distance(wanted_features, Normal(features(pictures)));
  };
  Generator random(options.seed);
  const NDArray noise = known.mean({0}) + known.std({0}) * random.normal(held_out.shape());
  const double of_noise = distance(noise.clip(-1, 1)), of_known = distance(known);

  Sequential generator = make_generator(options.quick ? 8 : 32);
  Sequential discriminator = make_discriminator(options.quick ? 8 : 32);
  Gan gan(generator, discriminator,
          {.latent = kLatent, .lr = options.quick ? 1e-3 : 2e-4, .seed = options.seed});
  double of_made = 0;
  train_gan(gan, train, options.epochs_or(5, 8), options, [&] {
    of_made = distance(gan.sample(count));
    return "distance " + std::to_string(of_made);
  });

  const double share = of_made / of_noise, wanted = options.wanted_or(0.1, 0.5);
  char result[200];
  std::snprintf(result, sizeof result,
                "distance to held-out pictures: %.3f, of noise %.3f, of other pictures of the data %.3f",
                of_made, of_noise, of_known);
  std::printf("%s\n%.4f of the distance of noise; wanted: at most %.3f\n", result, share, wanted);
  draw_pictures(options.picture, (gan.sample(60).squeeze({1}) + 1) / 2, 12, {result});
  return share <= wanted;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv, describe_fashion("dcgan", "Makes pictures of clothes with DCGAN."), run);
}
