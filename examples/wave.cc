// A recurrent network of four layers, each on its own device, over eight time steps. The program is two
// nested loops. The engine alone finds out that layers may work at the same time: layer 1 at step 0 while
// layer 0 is at step 1.
#include <atomic>
#include <cstdio>
#include <vector>

#include <heddle/heddle.h>

using namespace heddle;

constexpr int kLayers = 4, kSteps = 8, kSize = 96;

struct Recurrent {
  NDArray input, state;
  NDArray forward(const NDArray& x, const NDArray& h) const {
    return tanh(matmul(x, input) + matmul(h, state));
  }
};

// Runs the network. ran[layer][t] becomes the position of the cell (layer, t) in the order in which cells
// ended.
std::vector<float> run(Scheduler scheduler, int (&ran)[kLayers][kSteps]) {
  Engine engine({.scheduler = scheduler, .workers = kLayers});
  EngineScope scope(engine);
  Generator generator(7);
  std::atomic<int> count{0};
  std::vector<std::vector<NDArray>> data(kLayers + 1, std::vector<NDArray>(kSteps));
  for (NDArray& x : data[0]) x = generator.normal({16, kSize}, 0, 1, DType::f32, cpu(0));

  for (int layer = 0; layer < kLayers; ++layer) {
    Recurrent cell{generator.normal({kSize, kSize}, 0, 0.1, DType::f32, cpu(layer)),
                   generator.normal({kSize, kSize}, 0, 0.1, DType::f32, cpu(layer))};
    NDArray state = zeros({16, kSize}, DType::f32, cpu(layer));
    for (int t = 0; t < kSteps; ++t) {
      state = cell.forward(data[layer][t], state);
      data[layer + 1][t] = state.copy_to(cpu(layer + 1));
      engine.push([&, layer, t] { ran[layer][t] = count++; }, {.read = {state.var()}, .name = "note"});
    }
  }
  std::vector<float> result = data[kLayers][kSteps - 1].to_vector<float>();
  engine.wait_all();
  return result;
}

int main() {
  int serial[kLayers][kSteps], wave[kLayers][kSteps];
  bool same = run(Scheduler::naive, serial) == run(Scheduler::threaded, wave);
  std::printf("when each cell was finished, a line a layer, a column a time step:\n");
  for (auto& layer : wave) {
    for (int place : layer) std::printf("%4d", place);
    std::printf("\n");
  }
  std::printf("the result is %s that of running one op after the other\n", same ? "to the last bit" : "NOT");
  return same ? 0 : 1;
}
