#!/usr/bin/env python3
"""The same linear system by petscidrs.idrs() and by the solvers of SciPy, CuPy or PyTorch: time, iterations and true residual.

   -n k         convection and diffusion in a circular current, k * k points (default 100)
   -peclet p    (default 200)
   -f file      a matrix in the format Matrix Market instead, with b = A times ones
   -rtol r      relative tolerance of the residual norm (default 1e-8)
   -s s         size of the shadow space (default 4)
   -gpu lib     cupy or torch: matrix and vectors in the memory of the GPU
   -plot file   a picture of the residual norms, with matplotlib

   python3 ex16.py -n 100 -plot residuals.svg

It needs the Python package petscidrs (pip install .) and SciPy. The marks "# %%" are cells for Jupyter, Spyder and VS Code.
"""
# %% The settings
import argparse
import functools
import inspect
import time

import numpy as np
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg as sl

import petscidrs

parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
for name, kind, default in (('n', int, 100), ('peclet', float, 200.0), ('f', str, None), ('rtol', float, 1e-8), ('s', int, 4),
                            ('plot', str, None)):
    parser.add_argument('-' + name, type=kind, default=default)
parser.add_argument('-gpu', choices=('cupy', 'torch'))
settings = parser.parse_known_args()[0]

# %% The system: central differences, rows of 5 entries
def circular_current(k, peclet):
    h = 1 / (k + 1)
    y, x = np.divmod(np.arange(k * k), k)
    cx, cy = -peclet * ((y + 1) * h - 0.5) * h / 2, peclet * ((x + 1) * h - 0.5) * h / 2
    west, east = np.where(x > 0, -1 - cx, 0), np.where(x < k - 1, -1 + cx, 0)
    bands = [west[1:], east[:-1], (-1 - cy)[k:], (-1 + cy)[:-k], np.full(k * k, 4.0)]
    A = sp.diags(bands, [-1, 1, -k, k, 0]).tocsr()
    A.eliminate_zeros()
    A.sort_indices()
    return A


A = sp.csr_matrix(scipy.io.mmread(settings.f)) if settings.f else circular_current(settings.n, settings.peclet)
n = A.shape[0]
b = A @ np.ones(n) if settings.f else np.ones(n)
limit = 20 * n if n < 1000 else 5000
system, right, wait = A, b, lambda: None
if settings.gpu == 'cupy':
    import cupy
    import cupyx.scipy.sparse.linalg as gl
    from cupyx.scipy.sparse import csr_matrix

    system, right, wait = csr_matrix(A), cupy.asarray(b), cupy.cuda.Device().synchronize
elif settings.gpu == 'torch':
    import torch

    arrays = [torch.as_tensor(a, device='cuda') for a in (A.indptr, A.indices, A.data)]
    system = torch.sparse_csr_tensor(*arrays, size=A.shape)
    right, wait = torch.as_tensor(b, device='cuda'), torch.cuda.synchronize

# %% The solvers. Each returns x, the number of iterations, and relative residual norms
record = False  # the norms of solvers that only report x take a product each, so they are computed in a run that is not timed


def idrs(M):
    with petscidrs.Solver(system, M=M, s=settings.s, rtol=settings.rtol, maxiter=limit) as solver:
        x, info = solver.solve(right)
        return x, solver.iterations, solver.history / np.linalg.norm(b)


def krylov(function, M, **arguments):
    """A solver of SciPy or CuPy; the name of the tolerance depends on the release"""
    norms = []

    def callback(value):
        if np.ndim(value) and record:
            value = np.linalg.norm(b - A @ (value.get() if settings.gpu else value)) / np.linalg.norm(b)
        norms.append(value)

    tolerance = 'rtol' if 'rtol' in inspect.signature(function).parameters else 'tol'
    x, info = function(system, right, **{tolerance: settings.rtol}, M=M(), callback=callback, **arguments)
    cycles = 'restart' in arguments and 'callback_type' not in arguments
    return x, f'{len(norms)} cycles' if cycles else len(norms), norms


def torch_bicgstab(scale):
    """PyTorch has no solver of sparse systems: its users write one. BiCGSTAB, preconditioned from the right by a diagonal"""
    x, r = torch.zeros_like(right), right.clone()
    shadow, p = r.clone(), r.clone()
    rho, size, norms = torch.dot(shadow, r), float(right.norm()), [1.0]
    while settings.rtol < norms[-1] < 1e30 and len(norms) <= limit:
        y = scale * p
        v = system @ y
        alpha = rho / torch.dot(shadow, v)
        r = r - alpha * v
        z = scale * r
        t = system @ z
        omega = torch.dot(t, r) / torch.dot(t, t)
        x += alpha * y + omega * z
        r = r - omega * t
        rho, old = torch.dot(shadow, r), rho
        p = r + (rho / old) * (alpha / omega) * (p - omega * v)
        norms.append(float(r.norm()) / size)
    return x, len(norms) - 1, norms


def jacobi():
    return sl.LinearOperator((n, n), lambda x, scale=1 / A.diagonal(): scale * np.ravel(x))


def ilu():
    return sl.LinearOperator((n, n), sl.spilu(A.tocsc(), drop_tol=1e-3, fill_factor=2).solve)


short = f'idrs({settings.s})'
solvers = {f'petscidrs {short}, {M}': functools.partial(idrs, M) for M in ('jacobi', 'poly', 'ilu')}
if not settings.gpu:
    solvers |= {
        'scipy bicgstab, jacobi': lambda: krylov(sl.bicgstab, jacobi, maxiter=limit),
        'scipy bicgstab, spilu': lambda: krylov(sl.bicgstab, ilu, maxiter=limit),
        'scipy gmres(30), jacobi': lambda: krylov(sl.gmres, jacobi, restart=30, maxiter=limit // 30, callback_type='pr_norm'),
        'scipy spsolve': lambda: (sl.spsolve(A.tocsc(), b), 0, []),
    }
elif settings.gpu == 'cupy':
    scale = 1 / cupy.asarray(A.diagonal())
    diagonal = lambda: gl.LinearOperator((n, n), lambda x: scale * x.ravel(), dtype='d')
    solvers |= {
        f'cupyx {name}, jacobi': functools.partial(krylov, getattr(gl, name), diagonal, maxiter=limit)
        for name in ('bicgstab', 'cgs')
        if hasattr(gl, name)
    }
    solvers |= {
        'cupyx gmres(30), jacobi': lambda: krylov(gl.gmres, diagonal, restart=30, maxiter=limit),
        'cupyx spsolve': lambda: (gl.spsolve(system, right), 0, []),
    }
else:
    solvers |= {'torch bicgstab, jacobi': lambda: torch_bicgstab(1 / torch.as_tensor(A.diagonal(), device='cuda'))}

# %% The table: set-up and solve, the second of two runs. SciPy computes the residual norm of all rows. An iteration of bicgstab has
# two products with A, an iteration of the others one
print(f'{settings.f or "circular current"}: {n} rows, {A.nnz} nonzeros, rtol {settings.rtol:g}, {settings.gpu or "scipy"}')
print(f'{"solver":28} {"time ms":>10} {"iterations":>14} {"|b-Ax|/|b|":>12}')
histories, solved = {}, True
for name, solver in solvers.items():
    try:
        for record in (True, False) if settings.plot else (False, False):
            wait()
            begin = time.perf_counter()
            x, iterations, norms = solver()
            wait()
            elapsed = time.perf_counter() - begin
            if record:
                histories[name] = norms
    except Exception as error:  # such as a factorization that does not fit
        print(f'{name:28} {type(error).__name__}: {" ".join(str(error).split())[:80]}')
        continue
    x = x.get() if hasattr(x, 'get') else np.asarray(x.cpu() if hasattr(x, 'cpu') else x)
    residual = np.linalg.norm(b - A @ x) / np.linalg.norm(b)
    print(f'{name:28} {1e3 * elapsed:10.2f} {iterations:>14} {residual:12.2e}')
    solved = solved and (not name.startswith('petscidrs') or residual <= 1.1 * settings.rtol)
print('residual: as small as asked for' if solved else 'residual: too large')

# %% The picture
if settings.plot:
    import matplotlib

    matplotlib.use('agg')
    import matplotlib.pyplot as plt

    for name, norms in histories.items():
        if len(norms):
            plt.loglog([float(norm) for norm in norms], label=name)
    plt.xlabel('iterations')
    plt.ylabel('residual norm / norm of b')
    plt.legend()
    plt.savefig(settings.plot)
