"""Products, and rows of a matrix by their indices."""

import heddle

from .table import Case, F, operator, torch


@operator("linear")
def _(d):
    shape, outputs, bend = d.shape(1), d.integer(1, 5), d.chance(0.25)
    arrays = [d.floats(shape), d.floats((outputs, shape[-1])), d.floats((outputs,)) if d.chance(0.5) else None]
    return Case(arrays, lambda x, w, b: heddle.linear(x, w, b, bend), lambda x, w, b: F.relu(F.linear(x, w, b)) if bend else F.linear(x, w, b))


@operator("matmul")
def _(d):
    batch, other = d.operands(0, 2)
    n, k, m = d.sizes(3)
    a = (k,) if d.chance(0.2) else (*batch, n, k)
    b = (k,) if d.chance(0.2) else (*other, k, m)
    return Case([d.floats(a), d.floats(b)], heddle.matmul, lambda a, b: torch.matmul(a, b))


_EQUATIONS = ("ij,jk->ik", "bij,bjk->bik", "ij,ij->", "i,j->ij", "ij->ji", "ijk->j", "bhqd,bhkd->bhqk", "...ij,...jk->...ik",
              "ij,jk,kl->il", "bij,jk->bik", "ij->", "i,ij,j->", "bi,bj->bij", "ii->i", "ii->")  # fmt: skip


@operator("einsum")
def _(d):
    equation = d.pick(*_EQUATIONS)
    sizes = dict(zip("bdhijklq", d.sizes(8, 3)))
    batch = d.sizes(2, 3)
    shapes = [[*(batch if "..." in part else ()), *(sizes[c] for c in part.replace(".", ""))] for part in equation.split("->")[0].split(",")]
    return Case([d.floats(shape) for shape in shapes], lambda *x: heddle.einsum(equation, list(x)), lambda *x: torch.einsum(equation, *x))


for _name, _rank in (("outer", 1), ("kron", 2)):

    @operator(_name)
    def _(d, name=_name, rank=_rank):
        return Case([d.floats(d.sizes(rank)) for _ in range(2)], getattr(heddle, name), lambda a, b: getattr(torch, name)(a, b))


@operator("dot")
def _(d):
    shape = d.sizes(1)
    return Case([d.floats(shape), d.floats(shape)], heddle.dot, lambda a, b: torch.dot(a, b))


@operator("inner")
def _(d):
    k = d.sizes(1)
    return Case([d.floats((*d.shape(0, 2), *k)) for _ in range(2)], heddle.inner, lambda a, b: torch.inner(a, b))


@operator("vecdot")
def _(d):
    shape = d.shape(1)
    axis = d.axis(len(shape))
    return Case([d.floats(shape), d.floats(shape)], lambda a, b: heddle.vecdot(a, b, axis), lambda a, b: torch.linalg.vecdot(a, b, dim=axis))


@operator("cross")
def _(d):
    shape = list(d.shape(1))
    axis = d.axis(len(shape))
    shape[axis] = 3
    return Case([d.floats(shape), d.floats(shape)], lambda a, b: heddle.cross(a, b, axis), lambda a, b: torch.linalg.cross(a, b, dim=axis))


@operator("tensordot")
def _(d):
    shared = d.sizes(d.integer(0, 2), 3)
    count = len(shared)
    arrays = [d.floats((*d.shape(0, 2), *shared)), d.floats((*shared, *d.shape(0, 2)))]
    return Case(arrays, lambda a, b: heddle.tensordot(a, b, count), lambda a, b: torch.tensordot(a, b, dims=count))


@operator("embedding")
def _(d):
    rows = d.integer(1, 5)
    shape = tuple(max(1, n) for n in d.shape(0, 3))  # PyTorch's second gradient refuses an empty one.
    arrays = [d.floats((rows, d.integer(1, 4))), d.integers(shape, 0, rows - 1)]
    return Case(arrays, heddle.embedding, lambda w, i: F.embedding(i, w))
