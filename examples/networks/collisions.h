// Collisions of particles as a detector sees them, by a simple model of our own: a collision has jets of particles, which are clusters of
// energy in a calorimeter. In the background a jet has one core, which may radiate a second one that is weaker; in a signal one of
// the jets comes from a heavy particle, and has two or three cores that share its energy.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/data.h>
#include <heddle/heddle.h>

// Images (3, size, size), the electromagnetic and the hadronic energy and the number of charged tracks, each as log(1 + x), and
// labels: every second one is a signal, 1. Each is made when it is read, from the seed and its number.
class Collisions : public heddle::Dataset {
 public:
  Collisions(std::int64_t count, std::int64_t size, std::uint64_t seed)
      : count_(count), size_(size), seed_(seed) {}
  std::int64_t size() const override { return count_; }
  std::vector<heddle::ExampleArray> arrays() const override;
  heddle::Example read(std::int64_t index) const override;
  heddle::NDArray labels() const;  // of all

 private:
  // Places are parts of the image's side; the image goes on at the other side.
  void add_particle(std::vector<float>& image, double x, double y, double energy,
                    heddle::ExampleRandom& random) const;
  void add_core(std::vector<float>& image, double x, double y, double energy, double spread,
                heddle::ExampleRandom& random) const;
  void add_jet(std::vector<float>& image, bool heavy, heddle::ExampleRandom& random) const;
  std::int64_t count_, size_;
  std::uint64_t seed_;
};
