// Makes maps of the mass in the universe: CosmoGAN (Mustafa et al., 2019). The program makes the maps that it learns from itself, see
// sky.h. What it makes has to have the distribution of pixels, and the power spectrum, of maps that were held out. Alone, or on
// several ranks that learn from a share each:  heddle launch -n 2 -- cosmogan
#include <cstdio>

#include <heddle/data.h>

#include "gan.h"
#include "sky.h"

using namespace heddle;

namespace {

constexpr std::int64_t kLatent = 64;

// The authors' size is 256, their width 64.
Sequential make_generator(std::int64_t size, std::int64_t width) {
  const std::int64_t start = size / 16;
  Sequential net{Dense(kLatent, 8 * width * start * start, {.bias = false}),
                 Unflatten(1, {8 * width, start, start}), BatchNorm(8 * width), Relu()};
  for (std::int64_t factor : {4, 2, 1}) {
    net.add(ConvTranspose2d(2 * factor * width, factor * width, 5,
                            {.stride = 2, .padding = 2, .output_padding = 1, .bias = false}));
    net.add(BatchNorm(factor * width));
    net.add(Relu());
  }
  net.add(ConvTranspose2d(width, 1, 5, {.stride = 2, .padding = 2, .output_padding = 1}));
  net.add(Tanh());
  return net;
}

Sequential make_discriminator(std::int64_t size, std::int64_t width) {
  Sequential net{Conv2d(1, width, 5, {.stride = 2, .padding = 2}), LeakyRelu(0.2)};
  std::int64_t channels = width;
  for (std::int64_t out : {2 * width, 4 * width, 6 * width}) {
    net.add(Conv2d(channels, out, 5, {.stride = 2, .padding = 2, .bias = false}));
    net.add(BatchNorm(out));
    net.add(LeakyRelu(0.2));
    channels = out;
  }
  net.add(Flatten());
  net.add(Dense(channels * (size / 16) * (size / 16), 1));
  return net;
}

// "0.012 and 0.345"
std::string text_of(const MapDistance& distance) {
  char text[60];
  std::snprintf(text, sizeof text, "%.3f and %.3f", distance.pixels, distance.power);
  return text;
}

bool run(const Options& options) {
  const std::shared_ptr<Communicator> ranks = Communicator::create();
  const int rank = ranks->rank(), size = ranks->size();
  const std::int64_t side = options.quick ? 32 : 64, width = options.quick ? 8 : 16;
  const std::int64_t count = options.quick ? 320 : 6'000, test_count = options.quick ? 200 : 1'000;
  const std::int64_t batch = options.quick ? 16 : 64;  // of all ranks
  const Sky sky(side);
  Generator random = Generator(options.seed).jumped(rank), other(options.seed + 1);
  const NDArray own_share = sky.maps(count / size, random);
  const MapStatistics held_out(sky, sky.maps(test_count, other));

  Sequential generator = make_generator(side, width), discriminator = make_discriminator(side, width);
  Gan gan(generator, discriminator,
          {.latent = kLatent,
           .lr = options.quick ? 2e-3 : 3e-4,
           .flipped = 0.01,
           .seed = options.seed,
           .ranks = ranks});
  Loader train(ArrayDataset({own_share}),
               {.batch = batch / size, .shuffle = true, .seed = options.seed, .drop_last = true});
  MapDistance made{};
  train_gan(gan, train, options.epochs_or(10, 8), options, [&] {
    made = distance(MapStatistics(sky, gan.sample(test_count)), held_out);
    return "distances " + text_of(made);
  });
  if (rank != 0) return true;  // the first rank measures

  const MapDistance of_data = distance(MapStatistics(sky, sky.maps(test_count, other)), held_out);
  const NDArray noise = tanh(other.normal({test_count, 1, side, side}));
  const MapDistance of_noise = distance(MapStatistics(sky, noise), held_out);
  const double result = made.pixels + made.power, wanted = options.wanted_or(0.5, 1.4);
  std::printf(
      "distances to held-out maps, of pixels and of the power spectrum: %s, of noise %s, of other maps %s\n"
      "their sum is %.3f; wanted: at most %.3f\n",
      text_of(made).c_str(), text_of(of_noise).c_str(), text_of(of_data).c_str(), result, wanted);
  const NDArray pictures = concat({sky.maps(6, other), gan.sample(12)}, 0).squeeze({1});
  draw_pictures(options.picture, (pictures + 1) / 2, 6,
                {"Above: maps of the data; below: maps that the network makes.",
                 "distances of pixels and power: " + text_of(made) + ", of noise " + text_of(of_noise)});
  return result <= wanted;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(
      argc, argv, {.name = "cosmogan", .text = "Makes maps of the mass in the universe with CosmoGAN."}, run);
}
