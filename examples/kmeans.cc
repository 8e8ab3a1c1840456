// k-means: finds the four clusters that points were drawn from. Points go to the nearest centre, and centres to the mean
// of their points, a dozen times. The distances of all points to all centres are one expression that broadcasts.
#include <cstdio>

#include <heddle/heddle.h>

#include "svg.h"

using namespace heddle;

constexpr int kClusters = 4, kEach = 90, kSteps = 12;

// (n, 2) and (k, 2) -> (n, k)
NDArray squared_distances(const NDArray& points, const NDArray& centres) {
  return sum(square(expand_dims(points, 1) - centres), {2});
}

// k-means++: the next centre is a random point, with a probability that grows with its distance to the
// nearest centre so far.
NDArray first_centres(const NDArray& points, Generator& generator) {
  NDArray centres = choice(points, {1}, true, {}, generator);
  while (centres.shape()[0] < kClusters) {
    NDArray weights = min(squared_distances(points, centres), {1});
    centres = concat({centres, take(points, multinomial(weights, 1, false, generator))});
  }
  return centres;
}

int main(int argc, char** argv) {
  Generator generator(5);
  NDArray truth = repeat(arange(0, kClusters, 1, DType::i64), kEach);
  NDArray means = array({-2.0, -1.5, 2.0, -2.0, -1.0, 2.0, 2.5, 1.5}).view_as({kClusters, 2});
  NDArray points = take(means, truth) + generator.normal({kClusters * kEach, 2}, 0, 0.6, DType::f64);

  NDArray centres = first_centres(points, generator), nearest, members;
  for (int step = 0; step < kSteps; ++step) {
    nearest = argmin(squared_distances(points, centres), 1);
    members = one_hot(nearest, kClusters, DType::f64);  // (n, k)
    centres = matmul(transpose(members), points) / expand_dims(sum(members, {0}), 1);
  }

  // counts(i, j): how many points of true cluster i were assigned to centre j. Each row has nearly all of its
  // points in one column.
  NDArray counts = matmul(transpose(one_hot(truth, kClusters, DType::f64)), members);
  double together = (sum(max(counts, {1})) / (kClusters * kEach)).item<double>();
  double farthest = max(min(squared_distances(means, centres), {1})).item<double>();
  std::printf("%.3f of the points are with their cluster; centres:\n%s\n", together,
              centres.to_string().c_str());

  const char* colors[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1"};
  svg::Picture picture(-5.5, 5.5, -3.6, 3.2);
  picture.axes();
  auto x = points.to_vector<double>(), c = centres.to_vector<double>();
  auto cluster = nearest.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < cluster.size(); ++i) picture.point(x[2 * i], x[2 * i + 1], colors[cluster[i]]);
  for (std::size_t i = 0; i < kClusters; ++i) picture.point(c[2 * i], c[2 * i + 1], "#000", 6);
  bool saved = picture.save(argc > 1 ? argv[argc - 1] : "kmeans.svg");
  return saved && together > 0.98 && farthest < 0.1 ? 0 : 1;
}
