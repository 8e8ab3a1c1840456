// What simulate says: for each number of ranks and each scheme the outcome of a step; as text, JSON and a page.
#pragma once

#include <string>
#include <vector>

#include "simulation.h"

namespace heddle::tool {

struct Forecast {
  Step step;
  SimulatedCluster cluster;
  std::vector<Scheme> schemes;
  std::vector<int> ranks;
  std::vector<std::vector<Outcome>> outcomes;  // by ranks, then by scheme
};

Forecast forecast_of(Step step, SimulatedCluster cluster, std::vector<Scheme> schemes,
                     std::vector<int> ranks);

std::string forecast_text(const Forecast& forecast);
std::string forecast_json(const Forecast& forecast);  // one object; times in seconds
// A page with a chart of the efficiency over the ranks, and the table. It needs nothing from anywhere else.
std::string forecast_page(const Forecast& forecast);

}  // namespace heddle::tool
