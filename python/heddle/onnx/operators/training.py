"""ONNX's steps of optimizers. Each takes the rate, the count of steps, then weights, gradients and states in groups."""

import heddle
from heddle.onnx.table import Array, number, operator

DOMAIN = "ai.onnx.preview.training"


def groups(arrays: tuple[Array, ...], count: int) -> list[tuple[Array, ...]]:
    """Groups the arrays by tensor: weight, gradient and states."""
    n = len(arrays) // count
    return list(zip(*(arrays[i * n : (i + 1) * n] for i in range(count)), strict=True))


def flat(results: list[list[Array]]) -> list[Array]:
    """The inverse of groups(): all weights, then all arrays of each state."""
    return [array for group in zip(*results, strict=True) for array in group]


@operator(f"{DOMAIN}.Momentum")
def momentum(
    rate: Array, steps: Array, *arrays: Array, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> list[Array]:
    beta, results = beta if number(steps) > 0 else 1.0, []
    for x, gradient, velocity in groups(arrays, 3):
        gradient = norm_coefficient * x + gradient
        velocity = alpha * velocity + beta * gradient
        results.append([x - rate * (gradient + alpha * velocity if mode == "nesterov" else velocity), velocity])
    return flat(results)


@operator(f"{DOMAIN}.Adagrad")
def adagrad(
    rate: Array,
    steps: Array,
    *arrays: Array,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> list[Array]:
    rate, results = rate / (1 + number(steps) * decay_factor), []
    for x, gradient, squares in groups(arrays, 3):
        gradient = norm_coefficient * x + gradient
        squares = squares + heddle.square(gradient)
        results.append([x - rate * gradient / (heddle.sqrt(squares) + epsilon), squares])
    return flat(results)


@operator(f"{DOMAIN}.Adam")
def adam(
    rate: Array,
    steps: Array,
    *arrays: Array,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> list[Array]:
    steps, results = number(steps), []
    if steps > 0:
        rate = rate * ((1 - beta**steps) ** 0.5 / (1 - alpha**steps))
    for x, gradient, mean, squares in groups(arrays, 4):
        gradient = norm_coefficient * x + gradient
        mean = alpha * mean + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * heddle.square(gradient)
        new = x - rate * mean / (heddle.sqrt(squares) + epsilon)
        results.append([(1 - norm_coefficient_post) * new, mean, squares])
    return flat(results)
