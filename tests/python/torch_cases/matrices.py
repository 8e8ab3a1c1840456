"""Linear algebra."""

import numpy as np

import heddle

from .table import Case, operator, torch


def _square(d, add=4.0):
    """Matrices far from singular."""
    n = d.integer(1, 4)
    return d.floats((*d.sizes(d.integer(0, 2), 3), n, n), -1, 1) + add * np.eye(n)


for _name in ("inv", "det", "pinv"):

    @operator(_name)
    def _(d, name=_name):
        return Case([_square(d)], getattr(heddle, name), lambda x: getattr(torch.linalg, name)(x))


@operator("slogdet")
def _(d):
    return Case([_square(d)], lambda x: list(heddle.slogdet(x))[1], lambda x: torch.linalg.slogdet(x)[1])


@operator("cholesky")
def _(d):
    def ours(x):
        return heddle.cholesky(heddle.matmul(x, heddle.swapaxes(x, -1, -2)))

    return Case([_square(d)], ours, lambda x: torch.linalg.cholesky(x @ x.mT))


@operator("solve")
def _(d):
    a = _square(d)
    return Case([a, d.floats((*a.shape[:-1], d.integer(1, 3)))], heddle.solve, lambda a, b: torch.linalg.solve(a, b))


@operator("solve_triangular")
def _(d):
    a, upper = _square(d), d.chance(0.5)
    return Case([a, d.floats((*a.shape[:-1], d.integer(1, 3)))], lambda a, b: heddle.solve_triangular(a, b, upper),
                lambda a, b: torch.linalg.solve_triangular(a, b, upper=upper))  # fmt: skip


@operator("matrix_power")
def _(d):
    n = d.integer(-2, 4)
    return Case([_square(d)], lambda x: heddle.matrix_power(x, n), lambda x: torch.linalg.matrix_power(x, n))
