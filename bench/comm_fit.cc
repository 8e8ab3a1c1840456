#include "comm_fit.h"

#include <algorithm>
#include <cmath>

namespace heddle::bench {

namespace {

std::vector<CommPoint> points_of(const std::vector<CommPoint>& all, const std::string& subject) {
  std::vector<CommPoint> points;
  std::copy_if(all.begin(), all.end(), std::back_inserter(points),
               [&](const CommPoint& point) { return point.subject == subject && point.microseconds > 0; });
  return points;
}

// Minimises the sum of (alpha / t + beta * bytes / t - 1)^2; neither is less than nothing.
CommFit fit(const std::string& subject, const std::vector<CommPoint>& points) {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const CommPoint& point : points) {
    const double x = 1 / point.microseconds, y = static_cast<double>(point.bytes) / point.microseconds;
    aa += x * x, ab += x * y, bb += y * y, a += x, b += y;
  }
  const double determinant = aa * bb - ab * ab;
  CommFit result{subject, aa > 0 ? a / aa : 0, 0, 0};
  if (points.size() > 1 && determinant > 1e-12 * aa * bb) {
    result.alpha = (a * bb - b * ab) / determinant;
    result.beta = (b * aa - a * ab) / determinant;
  }
  if (result.beta < 0) result.alpha = a / aa, result.beta = 0;
  if (result.alpha < 0) result.alpha = 0, result.beta = b / bb;
  for (const CommPoint& point : points) {
    const double modelled = result.alpha + result.beta * static_cast<double>(point.bytes);
    result.worst = std::max(result.worst, std::abs(modelled / point.microseconds - 1));
  }
  return result;
}

}  // namespace

std::vector<CommFit> fits_of(const std::vector<CommPoint>& points) {
  std::vector<CommFit> fits;
  for (const CommPoint& point : points) {
    const bool known = std::any_of(fits.begin(), fits.end(),
                                   [&](const CommFit& one) { return one.subject == point.subject; });
    if (!known) fits.push_back(fit(point.subject, points_of(points, point.subject)));
  }
  return fits;
}

std::vector<CommPoint> fastest_of(const std::vector<CommPoint>& points, const std::string& prefix,
                                  const std::vector<std::string>& except) {
  std::vector<CommPoint> fastest;
  for (const CommPoint& point : points) {
    if (!point.subject.starts_with(prefix)) continue;
    if (std::find(except.begin(), except.end(), point.subject) != except.end()) continue;
    const auto same = std::find_if(fastest.begin(), fastest.end(),
                                   [&](const CommPoint& one) { return one.bytes == point.bytes; });
    if (same == fastest.end()) {
      fastest.push_back(point);
    } else if (point.microseconds < same->microseconds) {
      *same = point;
    }
  }
  return fastest;
}

}  // namespace heddle::bench
