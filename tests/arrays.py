"""Tests of petscidrs.idrs() and petscidrs.Solver for arrays of NumPy, SciPy, PyTorch and CuPy. tests/pip runs this program, which
prints a line "ok NAME" or "not ok NAME # reason" for each test. By hand, with the package installed: python3 tests/arrays.py [NAME]"""

import contextlib
import gc
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import traceback
import warnings
import weakref

import petscidrs

lazy = not {'numpy', 'petsc4py.PETSc'} & set(sys.modules)
import numpy as np
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg as sl

from petscidrs import Solver, idrs

matrices = pathlib.Path(__file__).resolve().parent.parent / 'tutorials/matrices'
tests = []


def test(function):
    tests.append(function)
    return function


class Skip(Exception):
    pass


def current(k=30, peclet=80.0):
    """Convection and diffusion in a circular current, k * k points"""
    h = 1 / (k + 1)
    y, x = np.divmod(np.arange(k * k), k)
    cx, cy = -peclet * ((y + 1) * h - 0.5) * h / 2, peclet * ((x + 1) * h - 0.5) * h / 2
    west, east = np.where(x > 0, -1 - cx, 0), np.where(x < k - 1, -1 + cx, 0)
    south, north = np.where(y > 0, -1 - cy, 0), np.where(y < k - 1, -1 + cy, 0)
    A = sp.diags([west[1:], east[:-1], south[k:], north[:-k], np.full(k * k, 4.0)], [-1, 1, -k, k, 0]).tocsr()
    A.eliminate_zeros()
    A.sort_indices()
    return A


def read(name):
    return sp.csr_matrix(scipy.io.mmread(matrices / f'{name}.mtx.gz'))


def residual(A, x, b):
    return np.max(np.linalg.norm(b - A @ x, axis=0) / np.linalg.norm(b, axis=0))


def raises(kind, pattern, function, *arguments, **settings):
    try:
        function(*arguments, **settings)
    except kind as error:
        assert re.search(pattern, str(error)), f'{pattern!r} is not in {str(error)!r}'
        return error
    raise AssertionError(f'no {kind.__name__} with {pattern!r}')


A = current()
n = A.shape[0]
rng = np.random.default_rng(3)
b = rng.standard_normal(n)
B = np.asfortranarray(rng.standard_normal((n, 5)))
exact = sl.spsolve(A.tocsc(), b)


@test
def import_is_lazy():
    assert lazy
    raises(AttributeError, "no attribute 'gmres'", lambda: petscidrs.gmres)


@test
def solutions():
    for system in (A, read('orsreg_1'), read('add32'), read('sherman1'), read('jpwh_991')):
        rhs = system @ np.ones(system.shape[0])
        direct = sl.spsolve(system.tocsc(), rhs)
        for s, M in ((1, 'jacobi'), (2, 'ilu'), (4, 'poly'), (4, 'matching'), (8, 'jacobi')):
            x, info = idrs(system, rhs, rtol=1e-10, s=s, M=M)
            assert info == 0 and residual(system, x, rhs) <= 1.01e-10, (system.shape, s, M, info, residual(system, x, rhs))
            assert np.linalg.norm(x - direct) <= 1e-4 * np.linalg.norm(direct), (system.shape, s, M)
    for M in (None, 'aggregation', 'gamg'):
        x, info = idrs(A, b, rtol=1e-10, M=M)
        assert info == 0 and np.linalg.norm(x - exact) <= 1e-7 * np.linalg.norm(exact)


@test
def formats():
    operator = sl.aslinearoperator(A)
    for kind in ('csr', 'csc', 'coo', 'bsr', 'dia', 'lil', 'dok'):
        for system in (A.asformat(kind), getattr(sp, kind + '_array')(A)):
            x, info = idrs(system, b, rtol=1e-9)
            assert info == 0 and residual(A, x, b) <= 1.01e-9, kind
    for system in (A.toarray(), np.asfortranarray(A.toarray()), A.toarray()[::-1, ::-1][::-1, ::-1], A.T.toarray().T, operator):
        x, info = idrs(system, b, rtol=1e-9)
        assert info == 0 and residual(A, x, b) <= 1.01e-9
    x, info = idrs(operator, b, rtol=1e-9, M='poly')
    assert info == 0 and residual(A, x, b) <= 1.01e-9
    x, info = idrs(A.toarray(), B, rtol=1e-9, M='ilu')
    assert info == 0 and residual(A, x, B) <= 1.01e-9
    x, info = idrs(operator, B, rtol=1e-9)
    assert info == 0 and residual(A, x, B) <= 1.01e-9
    x, info = idrs(sp.csr_matrix([[2.0]]), [4.0])
    assert info == 0 and x.shape == (1,) and abs(x[0] - 2) < 1e-12


@test
def duplicates_and_order():
    """Entries may be unsorted, and repeated; update() takes them in the same order"""
    coo = A.tocoo()
    rows, columns, values = [np.concatenate([2 * [a]]).ravel() for a in (coo.row, coo.col, coo.data / 2)]
    order = np.lexsort((rng.random(rows.size), rows))
    system = sp.csr_matrix((values[order], columns[order], np.searchsorted(rows[order], np.arange(n + 1))), shape=(n, n))
    before = [a.copy() for a in (system.indptr, system.indices, system.data)]
    with Solver(system, rtol=1e-9) as solver:
        assert residual(A, solver.solve(b)[0], b) <= 1.01e-9
        solver.update(3 * system.data)
        assert residual(3 * A, solver.solve(b)[0], b) <= 1.01e-9
    assert all((old == new).all() for old, new in zip(before, (system.indptr, system.indices, system.data)))


@test
def columns():
    for rhs in (B, np.ascontiguousarray(B), B[:, ::-1], B[:, :1]):
        with Solver(A, M='ilu', rtol=1e-9) as solver:
            x, info = solver.solve(rhs)
            assert info == 0 and x.shape == rhs.shape and residual(A, x, rhs) <= 1.01e-9
            if rhs.shape[1] > 1:
                assert solver.reason == ['CONVERGED_RTOL'] * 5 and len(solver.iterations) == 5
                assert [len(h) - 1 for h in solver.history] == solver.iterations
                for j, history in enumerate(solver.history):
                    assert abs(history[0] / np.linalg.norm(rhs[:, j]) - 1) < 1e-12 and history[-1] <= 1e-9 * history[0]
    rhs = B.copy()
    rhs[:, 2] = 0
    x, info = idrs(A, rhs, np.ones_like(rhs))
    assert info == 0 and not x[:, 2].any() and x[:, 1].any()
    x, info = idrs(A, B, maxiter=7)
    assert info == 7
    x, info = idrs(A, B, X := idrs(A, B, rtol=1e-12)[0], rtol=1e-9)
    assert info == 0 and (x == X).all()


@test
def dtypes():
    single = A.astype('f')
    x, info = idrs(single, b.astype('f'), rtol=1e-6)
    assert info == 0 and x.dtype == np.float32 and residual(single.astype('d'), x.astype('d'), b.astype('f').astype('d')) < 2e-6
    integers = sp.csr_matrix(np.diag(np.full(20, 5)) + np.diag(np.full(19, 2), 1))
    for dtype in ('i1', 'u2', 'i4', 'i8', 'e', 'f', 'd', 'g', '>f8', '<i2', '>i4'):
        for right in ('i8', 'f', '>f8', 'd'):
            x, info = idrs(integers.toarray().astype(dtype), np.arange(20).astype(right))
            expected = np.dtype(np.result_type(dtype, right)).char
            assert info == 0 and x.dtype.char == (expected if expected in 'fdFD' else 'd') and x.dtype.isnative, (dtype, right, x.dtype)
    assert idrs(np.eye(3, dtype=bool), [1, 2, 3])[0].tolist() == [1, 2, 3]
    if petscidrs.built_for()['complex']:
        H = A + 0.1j * sp.eye(n)
        for system, rhs, dtype in ((H, b, 'D'), (A, b + 1j * B[:, 0], 'D'), (A, b, 'd'), (H.astype('F'), b.astype('f'), 'F')):
            x, info = idrs(system, rhs, rtol=1e-6)
            assert info == 0 and x.dtype.char == dtype and residual(system, x, rhs) < 2e-6, dtype
        x, info = idrs(sl.aslinearoperator(A), b, rtol=1e-9)
        assert info == 0 and x.dtype == np.float64 and residual(A, x, b) <= 1.01e-9
        raises(TypeError, 'x0 has dtype complex128, and x has dtype float64', idrs, A, b, 1j * b)
    else:
        for arguments in ((A + 0.1j * sp.eye(n), b), (A, 1j * b), (A, b, 1j * b)):
            raises(TypeError, 'complex128, .* real scalars: .*--with-scalar-type=complex', idrs, *arguments)
    for strange in (b.astype(object), b.astype(str), b.astype('M8[s]'), b.view([('a', 'd')])):
        raises(TypeError, '^b has dtype', idrs, A, strange)
    raises(TypeError, '^A has dtype object', idrs, np.eye(3).astype(object), np.ones(3))
    raises(TypeError, '^A is a masked array', idrs, np.ma.masked_less(np.eye(3), 0.5), np.ones(3))
    raises(TypeError, '^b is a masked array', idrs, np.eye(3), np.ma.masked_less(np.ones(3), 0.5))


@test
def initial_guess_and_limits():
    with Solver(A, rtol=1e-8) as solver:
        assert solver.solve(b, exact) [1] == 0 and solver.iterations == 0
        assert not solver.solve(0 * b, b)[0].any() and solver.solve(0 * b)[1] == 0
        solver.solve(b, exact.astype('f'))
        assert 0 < solver.iterations < 60
    x, info = idrs(A, b, maxiter=3)
    assert info == 3
    x, info = idrs(A, b, rtol=0, atol=1e-3)
    assert info == 0 and 1e-7 < np.linalg.norm(b - A @ x) <= 1e-3
    for settings in (dict(rtol=1), dict(rtol=-1), dict(rtol=np.nan), dict(atol=-1), dict(atol=np.inf), dict(maxiter=0), dict(s=0)):
        raises(ValueError, f'^{[*settings][0]} is ', idrs, A, b, **settings)
    raises(TypeError, '^callback', idrs, A, b, callback=3)


@test
def same_arguments_as_scipy():
    calls = []
    for solver in (sl.bicgstab, idrs):
        x, info = solver(A, b, 0 * b, maxiter=1000, M=sl.LinearOperator((n, n), lambda v: v / 4), callback=lambda xk: calls.append(xk.shape))
        assert info == 0 and residual(A, x, b) <= 1.01e-5 and set(calls) == {(n,)}


@test
def updates():
    with Solver(A, M='ilu', rtol=1e-9) as solver:
        for system in (A, 2 * A, A + sp.diags(np.linspace(0, 3, n))):
            system = system.tocsr()
            system.sort_indices()
            solver.update(system)
            assert residual(system, solver.solve(b)[0], b) <= 1.01e-9
            solver.update(system.data)
            assert residual(system, solver.solve(b)[0], b) <= 1.01e-9 and solver.iterations < 60
        raises(ValueError, 'another pattern', solver.update, (A @ A).tocsr())
        raises(ValueError, 'values has shape', solver.update, A.data[1:])
        raises(ValueError, 'values contains NaN', solver.update, np.nan * A.data)
    with Solver(A.toarray(), rtol=1e-9) as solver:
        solver.update(2 * A.toarray())
        assert residual(2 * A, solver.solve(b)[0], b) <= 1.01e-9
    raises(TypeError, 'is a LinearOperator', Solver(sl.aslinearoperator(A)).update, A)


@test
def recycling():
    """Time steps: with the bases of the step before they take fewer matvecs"""
    system, matvecs = current(60, 200.0), {}
    for recycle in (False, True):
        with Solver(system, M='ilu', s=8, rtol=1e-8, recycle=recycle) as solver:
            right, matvecs[recycle] = np.ones(3600), 0
            for step in range(8):
                x, info = solver.solve(right)
                assert info == 0 and residual(system, x, right) <= 1.01e-8
                right = 1 + 0.1 * step + 0.01 * x / np.abs(x).max()
                matvecs[recycle] += solver.counts.matvecs
    assert matvecs[True] < 0.9 * matvecs[False], matvecs


@test
def attributes():
    with Solver(A, M='jacobi', s=3, rtol=1e-9) as solver:
        assert re.fullmatch(f'petscidrs.Solver: {n} rows, {A.nnz} nonzeros, memory host, IDR\\(3\\), preconditioner jacobi\nno solve so far', str(solver))
        solver.solve(b)
        assert solver.reason == 'CONVERGED_RTOL' and len(solver.history) == solver.iterations + 1
        assert solver.counts.matvecs >= solver.iterations > 10 and solver.counts.restarts == 0
        assert abs(solver.history[0] - np.linalg.norm(b)) < 1e-9 and solver.history[-1] <= 1e-9 * np.linalg.norm(b)
        assert (solver.history > 0).all() and solver.history.argmin() == len(solver.history) - 1
        assert re.search(f'\nlast solve: {solver.iterations} iterations, {solver.counts.matvecs} matvecs, CONVERGED_RTOL, residual norm [0-9.e-]+$', str(solver))
        solver.solve(B)
        assert 'last solve: 5 right-hand sides, ' in str(solver)
    for use in (lambda: solver.solve(b), lambda: solver.update(A), lambda: solver.counts, solver.__enter__):
        raises(ValueError, 'this Solver has been closed', use)
    solver.close()
    assert str(solver) == 'petscidrs.Solver, closed'


@test
def memory_is_freed():
    operator, M = sl.aslinearoperator(A), sl.LinearOperator((n, n), lambda v: v / 4)
    kept = [weakref.ref(x) for x in (operator, M)]
    solver = Solver(operator, M=M, callback=lambda x: None)
    solver.solve(b)
    kept.append(weakref.ref(solver))
    del operator, M, solver
    gc.collect()
    assert not any(reference() for reference in kept)


@test
def callbacks():
    seen = []
    with Solver(A, rtol=1e-9, callback=seen.append) as solver:
        x, info = solver.solve(b)
        assert len(seen) == solver.iterations and np.allclose(seen[-1], x) and seen[0].dtype == x.dtype
        assert np.linalg.norm(b - A @ seen[-2]) > 1e-9 * np.linalg.norm(b)
        solver.solve(B)
        assert all(v.shape == (n,) for v in seen)

    def wrong(x):
        raise KeyError('mine')

    for rhs in (b, B):
        raises(KeyError, 'mine', idrs, A, rhs, callback=wrong)
        raises(KeyError, 'mine', idrs, sl.LinearOperator((n, n), wrong, dtype='d'), rhs)
        raises(KeyError, 'mine', idrs, A, rhs, M=sl.LinearOperator((n, n), wrong, dtype='d'))
        raises(ValueError, 'product of A and a vector has shape \\(3,\\)', idrs, type('Op', (), dict(shape=(n, n), dot=lambda self, x: x[:3]))(), rhs)
        undeclared = type('Op', (), dict(shape=(n, n), dot=lambda self, x: A @ x + 1j * x))()
        raises(TypeError, 'the product of A has dtype complex128', idrs, undeclared, rhs)
    # a history ends where the norm is not finite: here before the first entry
    with Solver(A) as solver, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        far = np.zeros_like(B)
        far[0, 0] = 1e308
        solver.solve(B * 1e3, x0=far)
        lengths = [len(history) for history in solver.history]
        assert lengths[1:] == [its + 1 for its in solver.iterations[1:]], (lengths, solver.iterations, solver.reason)
    failing = [True]
    with Solver(A, rtol=1e-9, callback=lambda x: failing and wrong(x)) as solver:
        raises(KeyError, 'mine', solver.solve, b)
        failing.clear()
        assert residual(A, solver.solve(b)[0], b) <= 1.01e-9
    other = Solver(A, rtol=1e-3)
    assert idrs(A, b, callback=lambda x: other.solve(B))[1] == 0
    refused = Solver(A, callback=lambda x: refused.solve(b))
    raises(RuntimeError, 'make another Solver', refused.solve, b)
    closing = Solver(A, callback=lambda x: closing.close())
    raises(RuntimeError, 'make another Solver', closing.solve, b)


@test
def preconditioners():
    factors = sl.spilu(A.tocsc())
    for M in (sl.LinearOperator((n, n), factors.solve), sp.diags(1 / A.diagonal()).tocsr(), np.diag(1 / A.diagonal())):
        x, info = idrs(A, b, M=M, rtol=1e-9)
        assert info == 0 and residual(A, x, b) <= 1.01e-9
        x, info = idrs(sl.aslinearoperator(A), B, M=M, rtol=1e-9)
        assert info == 0 and residual(A, x, B) <= 1.01e-9
    with Solver(A, M=sl.LinearOperator((n, n), factors.solve), rtol=1e-9) as solver:
        solver.solve(b)
        assert solver.iterations < 20
    raises(ValueError, "M is 'ilu', which needs the entries", idrs, sl.aslinearoperator(A), b, M='ilu')
    raises(ValueError, "M is 'ILU', and must be", idrs, A, b, M='ILU')
    raises(ValueError, 'M has shape \\(3, 3\\), and A has', idrs, A, b, M=np.eye(3))
    raises(TypeError, 'M is a int', idrs, A, b, M=3)


@test
def options():
    from petsc4py import PETSc

    database = PETSc.Options()
    database['ksp_max_it'] = 2
    before, seen = database.getAll(), []
    assert idrs(A, b, rtol=1e-9, options='-ksp_idrs_s 6 -pc_type poly -pc_poly_degree 5', callback=lambda x: seen.append(database.getAll()))[1] == 0
    assert database.getAll() == before and len(seen) > 3 and all(entry == before for entry in seen)
    del database['ksp_max_it']
    raises(ValueError, 'not used these options: -ksp_idrs_t, -nonsense$', idrs, A, b, options='-ksp_idrs_t 3 -ksp_idrs_s 3 -nonsense 1')
    raises(PETSc.Error, 'matvec', idrs, A, b, options='-ksp_idrs_product matvec')
    raises(ValueError, '-ksp_type bcgs', idrs, A, b, options='-ksp_type bcgs')
    assert idrs(A, b, rtol=1e-9)[1] == 0 and database.getAll() == {k: v for k, v in before.items() if k != 'ksp_max_it'}


@test
def bad_systems():
    nan = A.copy()
    nan.data[5] = np.nan
    for arguments, pattern in (((np.zeros((0, 0)), np.zeros(0)), 'A is a ndarray of shape \\(0, 0\\)'), ((np.ones((3, 4)), np.ones(3)), 'shape \\(3, 4\\)'), ((np.ones(3), np.ones(3)), 'shape \\(3,\\)'),
                               ((nan, b), 'A contains NaN'), ((A, np.where(b > 1, np.inf, b)), 'b contains NaN or inf'), ((A, b, np.nan * b), 'x0 contains NaN'),
                               ((A, b[1:]), 'b has shape \\(899,\\), and A has 900 rows'), ((A, B[:, :0]), 'b has shape \\(900, 0\\)'), ((A, b[None]), 'b has shape \\(1, 900\\)'), ((A, B[:, :, None]), 'b has shape'), ((A, 1.0), 'b has shape \\(\\)'),
                               ((A, b, b[1:]), 'x0 is a ndarray of shape \\(899,\\), and b'), ((A, b, b[:, None]), 'x0 is')):
        raises(ValueError, pattern, idrs, *arguments)
    for system in ([[1.0]], None, 'A', 3):
        raises(TypeError, '^A is a ', idrs, system, b)
    broken = sp.csr_matrix(A)
    broken.indices = broken.indices + 9
    raises(ValueError, 'index arrays of A', idrs, broken, b)


@test
def singular_systems():
    """A negative info, or an error of PETSc with its sentence"""
    from petsc4py import PETSc

    empty = A.tolil()
    empty[7, :] = 0
    empty = empty.tocsr()
    x, info = idrs(empty, b, rtol=1e-8, maxiter=400)
    assert info != 0, info
    raises(PETSc.Error, '(?i)missing.*diagonal', idrs, empty, b, M='ilu')
    shift = sp.csr_matrix(np.roll(np.eye(40), 1, 1))
    raises(PETSc.Error, '(?i)missing.*diagonal', idrs, shift, np.arange(40.0), M='ilu')
    x, info = idrs(shift, np.arange(40.0), M='matching')
    assert info == 0 and residual(shift, x, np.arange(40.0)) <= 1.01e-5
    zero = sp.csr_matrix((np.array([1.0, 1, 1, 0]), ([0, 0, 1, 1], [0, 1, 0, 1])))
    zero.data[0] = 0
    try:
        info = idrs(zero, [1.0, 2.0], M='ilu')[1]
    except PETSc.Error as error:
        info = str(error)
    assert info and idrs(zero, [1.0, 2.0])[1] == 0, info
    with Solver(sp.csr_matrix(np.array([[0.0, 0], [0, 1]])), M='jacobi') as solver:
        assert solver.solve([1.0, 1.0])[1] != 0 and solver.reason.startswith('DIVERGED')


@test
def inputs_are_not_changed():
    big = np.zeros((2 * n, 3))
    big[::2, 1] = b
    for rhs in (big[::2, 1], b.astype('>f8'), b[::-1][::-1], np.broadcast_to(1.0, n), b.astype('i4'), np.asmatrix(b).T, b.tolist()):
        system, array, guess = A.copy(), np.asarray(rhs), np.ones(np.shape(rhs))
        copy = array.copy()
        for a in (system.data, system.indices, system.indptr, array, guess):
            a.flags.writeable = False
        x, info = idrs(system, array if not isinstance(rhs, (np.matrix, list)) else rhs, guess, rtol=1e-9)
        assert info == 0 and residual(A, x, array) <= 1.01e-9 and (array == copy).all() and (guess == 1).all() and x.flags.writeable
        assert type(x) is np.ndarray and x.shape == np.shape(rhs)
    dense = A.toarray()
    dense.flags.writeable = False
    assert idrs(dense, b)[1] == idrs(dense.T, b)[1] == 0
    x, info = idrs(dense.T, b, rtol=1e-9)
    assert residual(A.T, x, b) <= 1.01e-9


def interrupts(seconds, function, *arguments):
    """Calls a function that a SIGINT ends after some time. Python ignores one that comes while an object is destroyed"""
    shell = subprocess.Popen(['sh', '-c', f'sleep {seconds}; while kill -INT {os.getpid()}; do sleep 10; done'])
    raises(KeyboardInterrupt, '', function, *arguments)
    shell.kill()
    shell.wait()


def interrupt(system, rhs, b):
    """Ctrl-C ends a solve that would take hours, and a loop of short solves at any place; the Solver works afterwards"""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    endless = dict(rtol=0, maxiter=10**8, options='-ksp_convergence_test skip -ksp_idrs_max_restarts 99999999')
    with Solver(system, rtol=1e-9) as reference, Solver(system, **endless) as solver:

        def repeat():
            while True:
                reference.solve(rhs)
                Solver(np.eye(5)).solve(np.ones(5))

        for each in (rhs, b):
            interrupts(0.2, solver.solve, each)
        for k in range(10):
            interrupts(0.03 + 0.001 * rng.random(), repeat)
        x, info = reference.solve(b)
    assert info == 0 and signal.signal(signal.SIGINT, handler) is signal.default_int_handler and gc.isenabled()
    return x


@test
def keyboard_interrupt():
    for rhs in (b, B):
        assert residual(A, interrupt(A, rhs, b), b) <= 1.01e-9
    assert residual(A, interrupt(sl.aslinearoperator(A), b, b), b) <= 1.01e-9


@test
def fork():
    solver = Solver(A)
    for use in (lambda: solver.solve(b), lambda: idrs(A, b)):
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            try:
                raises(RuntimeError, "get_context\\('spawn'\\)", use)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
    assert solver.solve(b)[1] == 0


@test
def collected():
    """The garbage collector frees a Solver in a thread that an operator waits for"""
    freed = []

    def product(x):
        class Cycle:
            pass

        cycle = Cycle()
        cycle.itself, cycle.solver = cycle, spare.pop() if spare else None
        if cycle.solver:
            freed.append(weakref.ref(cycle.solver))
            del cycle
            thread = threading.Thread(target=gc.collect)
            thread.start()
            thread.join(60)
            assert not thread.is_alive(), 'the thread waits for the solve'
        return A @ x

    spare = [Solver(A)]
    assert idrs(sl.LinearOperator((n, n), product, dtype='d'), b, rtol=1e-3)[1] == 0
    assert freed and freed[0]() is None


@test
def threads():
    shared, results = Solver(A, rtol=1e-9, M=sl.LinearOperator((n, n), lambda v: v / 4)), {}

    def work(k):
        results[k] = [shared.solve(b * (k + 1)) for _ in range(10)] + [idrs(A, b * (k + 1), rtol=1e-9)]

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(info == 0 and residual(A, x, b * (k + 1)) <= 1.01e-9 for k in range(6) for x, info in results[k])


@test
def mpi():
    """MPI is started once, by whoever is first"""
    work = 'import numpy, petscidrs; x, info = petscidrs.idrs(numpy.eye(3), [1, 2, 3]); assert info == 0 and x[2] == 3; print("solved")'
    programs = {'first': work, 'petsc4py': 'import sys, petsc4py; petsc4py.init(sys.argv); ' + work, 'after': work + '; import petsc4py; petsc4py.init(); from petsc4py import PETSc; PETSc.Vec().createSeq(3)'}
    try:
        import mpi4py

        programs |= {'mpi4py': 'from mpi4py import MPI; ' + work + '; assert MPI.COMM_WORLD.size == 1', 'after mpi4py': work + '; from mpi4py import MPI; assert MPI.Is_initialized()'}
    except ImportError:
        pass
    for name, program in programs.items():
        done = subprocess.run([sys.executable, '-c', program, '-malloc_dump', '-help'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0 and 'solved' in done.stdout, (name, done.stdout)
        assert name == 'petsc4py' or done.stdout == 'solved\n', (name, done.stdout)


def like(library, array, device):
    return library.as_tensor(array, device=device) if library.__name__ == 'torch' else library.asarray(array)


def check_arrays(library, system, device):
    """The same tests for PyTorch on the host and on a GPU, and for CuPy; A of any library, b and x of this one"""
    host = lambda x: x.get() if hasattr(x, 'get') else x.cpu().numpy()
    rhs, several = like(library, b, device), like(library, B, device)
    with Solver(system, rtol=1e-9, M='jacobi') as solver:
        for right, array in ((rhs, b), (several, B), (rhs[:, None], b[:, None])):
            x, info = solver.solve(right)
            assert info == 0 and type(x) is type(right) and x.dtype == right.dtype and x.device == right.device and x.shape == right.shape
            assert residual(A, host(x), array) <= 1.01e-9
            again, info = solver.solve(right, x)
            assert info == 0 and residual(A, host(again), array) <= 1.01e-9
        solver.update(2 * (system.values() if hasattr(system, 'crow_indices') else system.data))
        assert residual(2 * A, host(solver.solve(rhs)[0]), b) <= 1.01e-9
        solver.update(system)
        assert residual(A, host(solver.solve(rhs)[0]), b) <= 1.01e-9
        raises(ValueError, 'x0 is a', solver.solve, rhs, rhs[1:])
        raises(ValueError, 'b contains NaN', solver.solve, rhs * float('nan'))
    for M in ('ilu', 'poly', 'matching', 'aggregation', 'gamg', None):
        x, info = idrs(system, rhs, M=M, rtol=1e-9)
        assert info == 0 and residual(A, host(x), b) <= 1.01e-9, M
    seen = []
    x, info = idrs(system, like(library, b.astype('f'), device), callback=seen.append)
    assert info == 0 and len(seen) > 5 and seen[-1].dtype == x.dtype == rhs.dtype and type(seen[-1]) is type(x)
    assert residual(A, host(interrupt(system, several, rhs)), b) <= 1.01e-9


def torch_matrix(torch, device, A=A):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # "in beta state"
        return torch.sparse_csr_tensor(*[torch.as_tensor(a, device=device) for a in (A.indptr, A.indices, A.data)], size=A.shape)


def imported(name):
    try:
        return __import__(name)
    except ImportError as error:
        raise Skip(str(error))


@test
def torch_host():
    torch = imported('torch')
    system = torch_matrix(torch, 'cpu')
    check_arrays(torch, system, 'cpu')
    x, info = idrs(A, torch.from_numpy(b).requires_grad_())
    assert isinstance(x, torch.Tensor) and not x.requires_grad and isinstance(idrs(system, b)[0], np.ndarray)
    half = idrs(system.float(), torch.ones(n).float())[0] if hasattr(system, 'float') else torch.ones(1)
    assert half.dtype == torch.float32
    raises(TypeError, 'to_sparse_csr', idrs, torch.eye(3).to_sparse(), torch.ones(3))
    raises(TypeError, 'b has dtype torch.bfloat16', idrs, system, torch.ones(n).bfloat16())
    assert idrs(torch.eye(3), torch.ones(3))[0].tolist() == [1, 1, 1]


def check_gpu(library, system, large, matrix_of_gpu_1):
    """One GPU: bytes between host and GPU, other streams, wrong places"""
    import ctypes

    if not petscidrs.built_for()['cuda']:
        raises(ValueError, 'PETSc without CUDA', Solver, system)
        raise Skip('a PETSc without CUDA')
    check_arrays(library, system, 'cuda')
    rhs, several = like(library, b, 'cuda'), like(library, B, 'cuda')
    with Solver(system, rtol=1e-9, M='jacobi') as solver:
        assert 'memory cuda:0' in str(solver)
        raises(ValueError, 'b is on host, and A is on cuda:0', solver.solve, b)
        raises(ValueError, 'x0 is on host, and A is on cuda:0', solver.solve, rhs, b)
        # b is not ready when solve() is called
        stream = library.cuda.Stream(non_blocking=True) if library.__name__ == 'cupy' else library.cuda.Stream()
        with stream if library.__name__ == 'cupy' else library.cuda.stream(stream):
            late = 0 * rhs
            dense = like(library, np.full((2000, 2000), 1e-6), 'cuda')
            for _ in range(30):
                dense = dense @ dense
            late += rhs + dense[0, 0]
            x, info = solver.solve(late)
            x = x * 1
        assert info == 0 and residual(A, x.get() if hasattr(x, 'get') else x.cpu().numpy(), b) <= 1.01e-9
    raises(ValueError, 'b is on cuda:0, and A is on host', idrs, A, rhs)
    # No vector is copied between host and GPU: PETSc counts the bytes
    counters = [ctypes.c_double.in_dll(petscidrs._library, f'petsc_{way}_sz') for way in ('ctog', 'gtoc')]
    with Solver(large, M='poly') as solver:  # PCJACOBI looks for zeros on the diagonal on the host
        assert counters[0].value > 0
        right = like(library, np.ones((40000, 3)), 'cuda')
        solver.solve(right)
        for vectors in (right, right[:, 0]):
            before = [counter.value for counter in counters]
            solver.solve(vectors, vectors)
            solver.update(2 * (large.values() if hasattr(large, 'crow_indices') else large.data))
            copied = [counter.value - old for counter, old in zip(counters, before)]
            assert max(copied) < 8 * 40000, (copied, solver.iterations)
    M = type('Inverse', (), dict(shape=(n, n), matvec=lambda self, x: x / 4))()
    assert idrs(system, rhs, M=M)[1] == 0 and idrs(system, several, M=M)[1] == 0
    other = matrix_of_gpu_1()
    if other is not None:
        raises(ValueError, 'A is on cuda:1, and PETSc uses cuda:0', Solver, other)


@test
def torch_gpu():
    torch = imported('torch')
    if not torch.cuda.is_available():
        raise Skip('PyTorch has no GPU')
    check_gpu(torch, torch_matrix(torch, 'cuda'), torch_matrix(torch, 'cuda', current(200, 5.0) + sp.eye(40000)), lambda: torch_matrix(torch, 'cuda:1') if torch.cuda.device_count() > 1 else None)


@test
def cupy_gpu():
    cupy = imported('cupy')
    from cupyx.scipy.sparse import csc_matrix, csr_matrix
    from cupyx.scipy.sparse.linalg import LinearOperator

    def there():
        with cupy.cuda.Device(1):
            return csr_matrix(A)

    system = csr_matrix(A)
    check_gpu(cupy, system, csr_matrix(current(200, 5.0) + sp.eye(40000)), lambda: there() if cupy.cuda.runtime.getDeviceCount() > 1 else None)
    rhs = cupy.asarray(b)
    for matrix in (csc_matrix(A), LinearOperator((n, n), lambda x: system @ x, dtype='d')):
        x, info = idrs(matrix, rhs, rtol=1e-9)
        assert info == 0 and residual(A, x.get(), b) <= 1.01e-9


for function in tests:
    if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
        continue
    try:
        with np.errstate(all='ignore'):
            function()
        print('ok', function.__name__)
    except Skip as reason:
        print('ok', function.__name__, '# SKIP', str(reason).partition('\n')[0])
    except (Exception, KeyboardInterrupt) as error:
        text = ' '.join(f'{type(error).__name__} {error}'.split())
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
        print('not ok', function.__name__, '#', text[:500], 'line', lines[-1] if lines else '')
    sys.stdout.flush()
