"""Linear algebra under NumPy's names: functions of heddle."""

from heddle._heddle import cholesky as cholesky
from heddle._heddle import cond as cond
from heddle._heddle import det as det
from heddle._heddle import eigh as eigh
from heddle._heddle import eigvalsh as eigvalsh
from heddle._heddle import inv as inv
from heddle._heddle import lstsq as lstsq
from heddle._heddle import matrix_power as matrix_power
from heddle._heddle import matrix_rank as matrix_rank
from heddle._heddle import norm as norm
from heddle._heddle import pinv as pinv
from heddle._heddle import qr as qr
from heddle._heddle import slogdet as slogdet
from heddle._heddle import solve as solve
from heddle._heddle import svd as svd
