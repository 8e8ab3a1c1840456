// Writes the predicted outcome of a training step, for each number of ranks and each scheme, as text, JSON
// and HTML.
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
  std::vector<std::vector<Outcome>> outcomes;  // [index in ranks][index in schemes]
};

Forecast forecast_of(Step step, SimulatedCluster cluster, std::vector<Scheme> schemes,
                     std::vector<int> ranks);

std::string forecast_text(const Forecast& forecast);
std::string forecast_json(const Forecast& forecast);  // one JSON object; its times are in seconds
// A self-contained HTML page with a chart of the efficiency over the number of ranks, and the table.
std::string forecast_page(const Forecast& forecast);

}  // namespace heddle::tool
