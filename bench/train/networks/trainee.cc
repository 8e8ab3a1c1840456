#include "train/networks/trainee.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "support/support.h"

namespace heddle::bench {

namespace {
constexpr int kComparedSteps = 5;
}  // namespace

Trainee::Trainee(const std::vector<std::string>& command,
                 const std::vector<std::pair<std::string, std::string>>& environment)
    : process_(command, environment) {
  const double start = now();
  losses_ = ask("losses 1", 1);
  first_step_ = now() - start;
  for (const double loss : ask("losses " + std::to_string(kComparedSteps - 1), kComparedSteps - 1))
    losses_.push_back(loss);
}

std::vector<double> Trainee::ask(const std::string& command, std::size_t numbers) {
  const std::string answer = process_.ask(command);
  std::istringstream words(answer);
  std::vector<double> values(numbers);
  for (double& value : values)
    if (!(words >> value) || !std::isfinite(value))
      throw std::runtime_error("the answer to '" + command + "' is: " + answer);
  return values;
}

double Trainee::prepare(double seconds) {
  speed(3);
  const double rate = speed(2);
  steps_ = std::max(2, static_cast<int>(std::lround(rate * seconds)));
  return run();
}

double Trainee::run() { return speed(steps_); }

double Trainee::peak_memory() { return ask("memory", 1)[0]; }

std::vector<TorchSetting> network_settings(const NetworkKind& kind, int threads, bool compile) {
  std::vector<TorchSetting> settings;
  for (TorchSetting& setting : torch_settings(threads)) {
    const bool channels_last = !setting.arguments.empty();
    if (channels_last && kind.layout != "images") continue;
    if (!setting.environment.empty()) setting.arguments.push_back("--fused");
    settings.push_back(std::move(setting));
  }
  const auto also = [&settings](const std::string& what, const std::string& argument) {
    for (std::size_t i = settings.size(); i-- > 1;) {
      TorchSetting setting = settings[i];
      setting.name += ", " + what;
      setting.arguments.push_back(argument);
      settings.push_back(std::move(setting));
    }
  };
  if (compile) also("compiled", "--compile");
  if (kind.layout == "lengths") {
    TorchSetting packed = settings[1];
    packed.name += ", packed";
    packed.arguments.push_back("--packed");
    settings.push_back(std::move(packed));
  }
  return settings;
}

double loss_difference(const Trainee& a, const Trainee& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.losses().size(); ++i) {
    const double x = a.losses()[i], y = b.losses()[i];
    most = std::max(most, std::fabs(x - y) / std::max({std::fabs(x), std::fabs(y), 1e-6}));
  }
  return most;
}

}  // namespace heddle::bench
