#include "collisions.h"

#include <cmath>
#include <numbers>

using namespace heddle;

namespace {

double exponential(ExampleRandom& random) { return -std::log(1 - random.uniform()); }

double normal(ExampleRandom& random) {
  const double radius = std::sqrt(2 * exponential(random));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

}  // namespace

std::vector<ExampleArray> Collisions::arrays() const {
  return {{DType::f32, {3, size_, size_}}, {DType::i64, {}}};
}

NDArray Collisions::labels() const { return arange(0, count_, 1, DType::i64) % 2; }

Example Collisions::read(std::int64_t index) const {
  ExampleRandom random(seed_, 0, index);
  const bool signal = index % 2 == 1;
  std::vector<float> image(static_cast<std::size_t>(3 * size_ * size_));
  const std::int64_t jets = 2 + random.integer(2);
  for (std::int64_t jet = 0; jet < jets; ++jet) add_jet(image, signal && jet == 0, random);
  for (int i = 0; i < 60; ++i) {  // of other collisions at the same time
    const double x = random.uniform(), y = random.uniform();
    add_particle(image, x, y, 0.5 * exponential(random), random);
  }
  for (float& value : image) value = std::log1p(value);
  return {array(image, {3, size_, size_}), full({}, signal ? 1 : 0, DType::i64)};
}

void Collisions::add_particle(std::vector<float>& image, double x, double y, double energy,
                              ExampleRandom& random) const {
  const auto pixel = [&](double place) {
    return static_cast<std::int64_t>((place - std::floor(place)) * static_cast<double>(size_)) % size_;
  };
  const auto add = [&](int channel, double value) {
    image[static_cast<std::size_t>((channel * size_ + pixel(y)) * size_ + pixel(x))] +=
        static_cast<float>(value);
  };
  const bool charged = random.uniform() < 0.6;
  const double electromagnetic = (charged ? 0.3 : 1.0) * random.uniform();
  add(0, energy * electromagnetic);
  add(1, energy * (1 - electromagnetic));
  if (charged) add(2, 1);
}

void Collisions::add_core(std::vector<float>& image, double x, double y, double energy, double spread,
                          ExampleRandom& random) const {
  constexpr int kParticles = 20;
  for (int i = 0; i < kParticles; ++i) {
    const double right = spread * normal(random), up = spread * normal(random);
    add_particle(image, x + right, y + up, energy / kParticles * exponential(random), random);
  }
}

void Collisions::add_jet(std::vector<float>& image, bool heavy, ExampleRandom& random) const {
  const double x = random.uniform(), y = random.uniform(), energy = 40 + 40 * exponential(random);
  const double angle = 2 * std::numbers::pi * random.uniform(), distance = 0.06 + 0.06 * random.uniform();
  if (!heavy) {
    const double radiated = 0.3 * random.uniform(), spread = 0.012 + 0.03 * random.uniform();
    add_core(image, x, y, energy * (1 - radiated), spread, random);
    add_core(image, x + distance * std::cos(angle), y + distance * std::sin(angle), energy * radiated, spread,
             random);
    return;
  }
  const int cores = 2 + static_cast<int>(random.integer(2));
  for (int core = 0; core < cores; ++core) {
    const double at = angle + 2 * std::numbers::pi * core / cores;
    add_core(image, x + distance * std::cos(at), y + distance * std::sin(at), energy / cores, 0.015, random);
  }
}
