#include "forecast.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <numeric>

#include <nlohmann/json.hpp>

#include "units.h"

namespace heddle::tool {
namespace {

double bytes_of(const Step& step) {
  return std::accumulate(step.gradients.begin(), step.gradients.end(), 0.0,
                         [](double sum, const Gradient& one) { return sum + one.bytes; });
}

__attribute__((format(printf, 2, 3))) void print(std::string& out, const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  out += line;
}

std::string link_text(const LinkCost& link) {
  return seconds_to_text(link.alpha) + " a message, " + rate_to_text(link.beta);
}

std::string servers_text(const SimulatedCluster& cluster) {
  return cluster.servers > 0 ? std::to_string(cluster.servers) : "one a host";
}

nlohmann::ordered_json outcome_json(const Forecast& forecast, int ranks, const Scheme& scheme,
                                    const Outcome& outcome) {
  nlohmann::ordered_json json{{"algorithm", scheme.name},
                              {"step", outcome.step},
                              {"efficiency", outcome.efficiency},
                              {"communication", outcome.communication},
                              {"hidden", outcome.hidden}};
  if (forecast.step.images > 0) json["images_per_second"] = forecast.step.images * ranks / outcome.step;
  return json;
}

}  // namespace

Forecast forecast_of(Step step, SimulatedCluster cluster, std::vector<Scheme> schemes,
                     std::vector<int> ranks) {
  Forecast forecast{std::move(step), cluster, std::move(schemes), std::move(ranks), {}};
  for (const int count : forecast.ranks) {
    std::vector<Outcome> row;
    for (const Scheme& scheme : forecast.schemes)
      row.push_back(simulate(forecast.step, scheme, cluster, count));
    forecast.outcomes.push_back(std::move(row));
  }
  return forecast;
}

std::string forecast_text(const Forecast& forecast) {
  const Step& step = forecast.step;
  const SimulatedCluster& cluster = forecast.cluster;
  std::string out;
  print(out, "step      %s: %s alone, %s of gradients in %zu parts, %zu buckets of %s\n", step.name.c_str(),
        seconds_to_text(step.compute + step.after).c_str(), bytes_to_text(bytes_of(step)).c_str(),
        step.gradients.size(), in_buckets(step.gradients, cluster.bucket).size(),
        bytes_to_text(cluster.bucket).c_str());
  print(out, "network   inside hosts %s; between them %s; ranks a host: %d; servers: %s\n\n",
        link_text(cluster.network.local).c_str(), link_text(cluster.network.remote).c_str(),
        cluster.network.ranks_per_host, servers_text(cluster).c_str());
  out += "          ";
  for (const Scheme& scheme : forecast.schemes) print(out, "  %-27s", scheme.name.c_str());
  out += "\n     ranks";
  for (std::size_t i = 0; i < forecast.schemes.size(); ++i)
    print(out, "  %9s %8s %8s", "step ms", "kept", "hidden");
  out += '\n';
  for (std::size_t row = 0; row < forecast.ranks.size(); ++row) {
    print(out, "%10d", forecast.ranks[row]);
    for (const Outcome& one : forecast.outcomes[row]) {
      print(out, "  %9.2f %6.1f %% %6.1f %%", one.step * 1e3, one.efficiency * 100, one.hidden * 100);
    }
    out += '\n';
  }
  out +=
      "\nkept: of the speed of a rank alone; hidden: of the time in which gradients wait or are under way, "
      "what\n"
      "lies beside the backward pass\n";
  return out;
}

std::string forecast_json(const Forecast& forecast) {
  const Step& step = forecast.step;
  const NetworkCost& network = forecast.cluster.network;
  nlohmann::ordered_json json{{"step",
                               {{"name", step.name},
                                {"compute", step.compute},
                                {"after", step.after},
                                {"bytes", bytes_of(step)},
                                {"gradients", step.gradients.size()},
                                {"buckets", in_buckets(step.gradients, forecast.cluster.bucket).size()}}},
                              {"network",
                               {{"local_alpha", network.local.alpha},
                                {"local_beta", network.local.beta},
                                {"remote_alpha", network.remote.alpha},
                                {"remote_beta", network.remote.beta},
                                {"gamma", network.gamma},
                                {"ranks_per_host", network.ranks_per_host}}},
                              {"bucket", forecast.cluster.bucket},
                              {"servers", forecast.cluster.servers},
                              {"ranks", nlohmann::ordered_json::array()}};
  for (std::size_t row = 0; row < forecast.ranks.size(); ++row) {
    nlohmann::ordered_json schemes = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < forecast.schemes.size(); ++i) {
      schemes.push_back(
          outcome_json(forecast, forecast.ranks[row], forecast.schemes[i], forecast.outcomes[row][i]));
    }
    json["ranks"].push_back({{"ranks", forecast.ranks[row]}, {"schemes", schemes}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace heddle::tool
