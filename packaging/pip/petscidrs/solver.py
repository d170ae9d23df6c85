"""Solves for arrays of NumPy, SciPy, CuPy and PyTorch: petscidrs.idrs() and petscidrs.Solver, see docs/python.md"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import weakref
from typing import Any, Callable

import petscidrs

if petscidrs._petsc4py_lacks():
    raise ImportError(petscidrs._petsc4py_lacks())
if 'petsc4py.PETSc' not in sys.modules:
    import petsc4py

    # Without arguments PETSc does not read sys.argv. All objects are on one process, so MPI need not read the memory of a GPU
    petsc4py.init(['petscidrs', '-use_gpu_aware_mpi', '0'] if petscidrs.built_for()['cuda'] else [])
import numpy
from petsc4py import PETSc

from petscidrs import _call, _int

petscidrs.register()
_scalar = numpy.dtype(PETSc.ScalarType)
if _scalar.char not in 'dD':
    raise RuntimeError(f'petscidrs.Solver needs a PETSc with double precision, and this one has scalars of type {_scalar}')
_pid = os.getpid()
_lock = threading.RLock()
_garbage: list[tuple[list, '_Options']] = []  # of Solvers that were freed in a thread that must not wait for _lock
_history = 1000000  # residual norms that are kept at most
_check_signals = ctypes.c_void_p(ctypes.cast(ctypes.pythonapi.PyErr_CheckSignals, ctypes.c_void_p).value)
_preconditioners = (None, 'jacobi', 'poly', 'ilu', 'matching', 'aggregation', 'gamg')


def _library(array: Any) -> str:
    """Library of an array or a class derived from its classes: torch, cupy, otherwise numpy"""
    names = {base.__module__.partition('.')[0] for base in type(array).__mro__}
    return 'torch' if 'torch' in names else 'cupy' if names & {'cupy', 'cupyx'} else 'numpy'


def _place(array: Any) -> str:
    """Memory of an array: host, or a GPU such as cuda:0"""
    library = _library(array)
    if library == 'cupy':
        return f'cuda:{array.device.id}'
    return 'host' if library == 'numpy' or array.device.type == 'cpu' else str(array.device)


def _dtype(array: Any, name: str) -> numpy.dtype:
    """The dtype of an array, if it can be converted to PETSc's scalars"""
    try:
        dtype = numpy.dtype(str(array.dtype).removeprefix('torch.')) if _library(array) == 'torch' else numpy.dtype(array.dtype)
    except TypeError:
        dtype = numpy.dtype(object)
    if dtype.kind not in 'biufc':
        raise TypeError(f'{name} has dtype {array.dtype}: convert it to float64, complex128 or another dtype of numbers')
    if dtype.kind == 'c' and _scalar.kind != 'c':
        raise TypeError(f'{name} has dtype {dtype}, and this petscidrs was built for a PETSc with real scalars: build it for one '
                        'that was configured --with-scalar-type=complex')
    return dtype


def _contiguous(array: Any) -> Any:
    """Contiguous array of PETSc's scalars in the same memory: the array itself if possible. Tensors on the host become ndarrays"""
    library = _library(array)
    if library == 'torch':
        array = array.detach().resolve_conj().resolve_neg()
        if _place(array) != 'host':
            return array.to(getattr(sys.modules['torch'], _scalar.name)).contiguous()
        array = array.numpy()
    if library == 'cupy':
        return sys.modules['cupy'].ascontiguousarray(array, _scalar)
    shape, array = array.shape, numpy.ascontiguousarray(array, _scalar)  # which makes one dimension of none
    return (array if array.flags.writeable and array.flags.aligned else array.copy()).reshape(shape)


def _numbers(array: Any, name: str, place: str | None = None) -> tuple[Any, numpy.dtype]:
    """Contiguous array of PETSc's scalars, and the dtype of the argument, after all checks"""
    if isinstance(array, numpy.ma.MaskedArray):
        raise TypeError(f'{name} is a masked array: replace its masked entries with {name}.filled()')
    array = numpy.asarray(array) if _library(array) == 'numpy' else array
    dtype = _dtype(array, name)
    if place and _place(array) != place:
        raise ValueError(f'{name} is on {_place(array)}, and A is on {place}: copy one of the two')
    array = _contiguous(array)
    if not sys.modules[_library(array)].isfinite(array).all():
        raise ValueError(f'{name} contains NaN or infinite entries')
    return array, dtype


def _wait(library: str, place: str, whole: bool = True) -> None:
    """Waits for the current stream of the library, or for all streams of the GPU"""
    if place != 'host' and library == 'torch':
        cuda = sys.modules['torch'].cuda
        cuda.synchronize(place) if whole else cuda.current_stream(place).synchronize()
    elif place != 'host':
        cuda = sys.modules['cupy'].cuda
        (cuda.Device(int(place.partition(':')[2])) if whole else cuda.get_current_stream()).synchronize()


def _pointer(array: Any) -> int:
    """Address of the first entry"""
    library = _library(array)
    return array.data_ptr() if library == 'torch' else array.data.ptr if library == 'cupy' else array.ctypes.data


def _csr(A: Any) -> tuple[Any, Any, Any] | None:
    """Row pointers, columns and values of a sparse matrix, in its memory, or None"""
    if _library(A) == 'torch':
        if A.layout != sys.modules['torch'].sparse_csr:
            return None
        arrays = A.crow_indices(), A.col_indices(), A.values().detach()
        return tuple(array.numpy() for array in arrays) if _place(A) == 'host' else arrays
    if not hasattr(A, 'tocsr'):
        return None
    A = A.tocsr()
    return A.indptr, A.indices, A.data


class _Memory:
    """Memory of a GPU, which CuPy and PyTorch accept as an array without a copy"""

    def __init__(self, pointer: int, n: int):
        self.__cuda_array_interface__ = {'shape': (n,), 'typestr': _scalar.str, 'data': (pointer, False), 'version': 2}


@contextlib.contextmanager
def _array(vec: PETSc.Vec, library: str, place: str, mode: str):
    """The memory of a Vec as an array, mode r or w"""
    if place == 'host':
        yield vec.getArray(readonly=mode == 'r')
        return
    handle = vec.getCUDAHandle(mode)
    _wait(library, place)
    memory = _Memory(handle, vec.getLocalSize())
    module = sys.modules[library]
    try:
        yield module.as_tensor(memory, device=place) if library == 'torch' else module.asarray(memory)
    finally:
        _wait(library, place, False)
        vec.restoreCUDAHandle(handle, mode)


def _copy(vec: PETSc.Vec, library: str, place: str) -> Any:
    """The entries of a Vec in a new array"""
    with _array(vec, library, place, 'r') as array:
        return array + 0


def _finished(work: Any, like: str, dtype: numpy.dtype) -> Any:
    """An array of scalars with the dtype, and of the library, of the result"""
    work = work.real if _scalar.kind == 'c' and dtype.kind != 'c' else work
    if not isinstance(work, numpy.ndarray):
        return work.to(getattr(sys.modules['torch'], dtype.name)).contiguous() if like == 'torch' else work.astype(dtype)
    work = numpy.ascontiguousarray(work, dtype).reshape(work.shape)
    return sys.modules['torch'].from_numpy(work) if like == 'torch' else work


class _Interrupt:
    """Handler of SIGINT in the main thread. It calls the handler of the program only where an exception leaves PETSc's options and
    objects in order, in an iteration or in a function of the caller, otherwise after the solve"""

    def __init__(self):
        self.allowed, self.pending, self.original, self.options = False, False, None, None

    def __call__(self, number: int, frame: Any) -> None:
        if not self.allowed:
            self.pending = True
            return
        try:
            self.original(number, frame)
        except BaseException as error:
            self.options.keep(error)
            raise

    @contextlib.contextmanager
    def deferred(self, finalizing: bool = False):
        """Python ignores exceptions of finalizers, after which the signal comes again"""
        main = threading.current_thread() is threading.main_thread()
        if self.original or not main or not callable(signal.getsignal(signal.SIGINT)):
            yield
            return
        self.original = signal.signal(signal.SIGINT, self)
        try:
            yield
        finally:
            original, pending, self.original, self.pending, self.allowed = self.original, self.pending, None, False, False
            signal.signal(signal.SIGINT, original)
            if pending and finalizing:
                threading.Timer(0.01, _thread.interrupt_main).start()
            elif pending:
                original(signal.SIGINT, None)

    def call(self, function: Callable, *arguments) -> Any:
        """Calls a function that Ctrl-C may end"""
        before, self.allowed = self.allowed, True
        try:
            if self.pending:
                self.pending = False
                self(signal.SIGINT, None)
            return function(*arguments)
        finally:
            self.allowed = before


_interrupt = _Interrupt()


class _Options:
    """PETSc's default options database while PETSc works for a Solver; that of the caller while a callback runs"""

    def __init__(self, options: str):
        self.database, self.error, self.outer = ctypes.c_void_p(), None, None
        _call('PetscOptionsCreate', ctypes.byref(self.database))
        _call('PetscOptionsInsertString', self.database, options.encode())

    def __enter__(self):
        self.outer, _interrupt.options = _interrupt.options, self
        _call('PetscOptionsPush', self.database)

    def __exit__(self, kind, error, traceback):
        _call('PetscOptionsPop')
        _interrupt.options, raised, self.error = self.outer, self.error, None
        if raised:
            if self.collects:
                gc.enable()
            if isinstance(error, (PETSc.Error, SystemError)):
                raise raised from None

    def keep(self, error: BaseException) -> None:
        """Keeps an exception until PETSc has returned an error code. The garbage collector would discard it before"""
        self.error, self.collects = error, gc.isenabled()
        gc.disable()

    def call(self, function: Callable, *arguments) -> Any:
        """Calls a function that contains code of the caller"""
        before, _interrupt.allowed = _interrupt.allowed, False
        _call('PetscOptionsPop')
        try:
            return _interrupt.call(function, *arguments)
        except BaseException as error:
            if not self.error:
                self.keep(error)
            raise
        finally:
            _call('PetscOptionsPush', self.database)
            _interrupt.allowed = before

    def unused(self) -> list[str]:
        """Options that PETSc has not asked for"""
        count, names, values = _int()(), ctypes.POINTER(ctypes.c_char_p)(), ctypes.POINTER(ctypes.c_char_p)()
        arguments = [ctypes.byref(argument) for argument in (count, names, values)]
        _call('PetscOptionsLeftGet', self.database, *arguments)
        unused = ['-' + names[i].decode() for i in range(count.value)]
        _call('PetscOptionsLeftRestore', self.database, *arguments)
        return unused


class _Operator:
    """A Mat or PC of type python that calls a LinearOperator. It does not refer to the Solver, which would never be freed"""

    def __init__(self, operator: Any, name: str, n: int, place: tuple[str, str], options: _Options):
        shape = tuple(getattr(operator, 'shape', ()))
        if shape != (n, n):
            raise ValueError(f'{name} has shape {shape}, and A has {n} rows and columns')
        dtype = getattr(operator, 'dtype', None)
        self.dtype = numpy.dtype('d') if dtype is None else _dtype(operator, name)
        self.product = getattr(operator, 'matvec', None) or operator.dot
        self.name, self.n, self.place, self.options = name, n, place, options

    def _times(self, x: Any) -> Any:
        y = self.product(x)
        dtype = _dtype(y, f'the product of {self.name}')
        if dtype.kind == 'c' and self.dtype.kind != 'c':
            raise TypeError(f'the product of {self.name} has dtype {dtype}, and {self.name} has {self.dtype}: set its dtype')
        if tuple(y.shape) not in ((self.n,), (self.n, 1)):
            raise ValueError(f'the product of {self.name} and a vector has shape {tuple(y.shape)} instead of {(self.n,)}')
        return y.reshape(self.n)

    def _apply(self, x: PETSc.Vec, y: PETSc.Vec) -> None:
        x = _copy(x, *self.place)
        if _scalar.kind == 'c' and self.dtype.kind != 'c':  # a real operator need not accept complex vectors
            result = self._times(x.real + 0)
            result = result + 1j * self._times(x.imag + 0) if x.imag.any() else result
        else:
            result = self._times(x)
        with _array(y, *self.place, 'w') as array:
            array[:] = result

    def mult(self, of: PETSc.Object, x: PETSc.Vec, y: PETSc.Vec) -> None:
        del of  # kept by the traceback of an exception, PETSc would destroy it, and call Python, after the end of Python
        self.options.call(self._apply, x, y)

    apply = mult


class _Monitor:
    """Calls callback(xk) after each iteration"""

    def __init__(self, callback: Callable, options: _Options):
        self.callback, self.options = callback, options

    def __call__(self, ksp: PETSc.KSP, iteration: int, norm: float) -> None:
        if iteration:
            x = _finished(_copy(ksp.buildSolution(), *self.place), self.like, self.dtype)
            del ksp  # as above
            self.options.call(self.callback, x)


class _Matrix:
    """The Mat of a matrix A. Its entries keep the order of the values of A"""

    def __init__(self, A: Any, mat: PETSc.Mat, options: _Options):
        self.mat, shape, library = mat, tuple(getattr(A, 'shape', ())), _library(A)
        if not hasattr(A, 'shape') or library == 'numpy' and not (hasattr(A, 'dot') or hasattr(A, 'matvec')):
            raise TypeError(f'A is a {type(A).__name__}, and must be a sparse matrix, a LinearOperator or an ndarray')
        if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
            raise ValueError(f'A is a {type(A).__name__} of shape {shape}, and must be square with at least one row')
        self.n, csr = shape[0], _csr(A)
        self.pattern, values = (csr[:2], csr[2]) if csr else (None, A)
        self.operator = not csr and library != 'torch' and not isinstance(A, numpy.ndarray)
        if self.operator:
            self.place = 'host' if library == 'numpy' else f'cuda:{sys.modules["cupy"].cuda.Device().id}'
        else:
            if not csr and (_place(A) != 'host' or library == 'torch' and A.layout != sys.modules['torch'].strided):
                raise TypeError(f'A is a {type(A).__name__} on {_place(A)} in another format than CSR: call A.to_sparse_csr()')
            self.place = _place(values)
            values, self.dtype = _numbers(values, 'A')
        self.library = 'numpy' if self.place == 'host' else library
        self.shape = None if self.operator else tuple(values.shape)  # of the values
        largest = numpy.iinfo(PETSc.IntType).max
        if max(self.n, *(self.shape or (0,))) > largest:
            raise ValueError(f'A has {self.n} rows and values of shape {self.shape}: use a PETSc with 64-bit integers')
        if self.place != 'host':
            self._check_device()
        if self.operator:
            context = _Operator(A, 'A', self.n, (self.library, self.place), options)
            self.dtype = context.dtype
            mat.createPython([self.n, self.n], context, comm=PETSc.COMM_SELF)
            if self.place != 'host':
                mat.setVecType(PETSc.Vec.Type.CUDA)
            mat.setUp()
        elif not csr:
            mat.createDense([self.n, self.n], comm=PETSc.COMM_SELF)
            mat.setUp()
            self._set(values)
        else:
            self._set_pattern()
            self._set(values)

    def _check_device(self) -> None:
        """PETSc uses one GPU, which it selects when it starts"""
        if not petscidrs.built_for()['cuda']:
            raise ValueError(f'A is on {self.place}, and this petscidrs was built for a PETSc without CUDA')
        context, device, number = ctypes.c_void_p(), ctypes.c_void_p(), _int()()
        _call('PetscDeviceContextGetCurrentContext', ctypes.byref(context))
        _call('PetscDeviceContextGetDevice', context, ctypes.byref(device))
        _call('PetscDeviceGetDeviceId', device, ctypes.byref(number))
        if self.place != f'cuda:{number.value}':
            raise ValueError(f'A is on {self.place}, and PETSc uses cuda:{number.value}: copy A')

    def _set_pattern(self) -> None:
        """Sets the pattern by coordinates: PETSc sums duplicates, and sorts. PETSc has the pattern on the host, too"""
        self.pattern = [indices.clone() if self.library == 'torch' else indices.copy() for indices in self.pattern]
        get = {'torch': lambda array: array.cpu().numpy(), 'cupy': lambda array: array.get(), 'numpy': numpy.asarray}[self.library]
        indptr, columns = map(get, self.pattern)
        lengths = numpy.diff(indptr)
        valid = indptr.shape == (self.n + 1,) and indptr[0] == 0 and indptr[-1] == columns.size and (lengths >= 0).all()
        if not valid or columns.size and not 0 <= columns.min() <= columns.max() < self.n:
            raise ValueError('the index arrays of A are not those of a matrix in the format CSR')
        # PETSc overwrites these two arrays
        rows, columns = numpy.repeat(numpy.arange(self.n, dtype=PETSc.IntType), lengths), columns.astype(PETSc.IntType)
        self.mat.create(PETSc.COMM_SELF)
        self.mat.setSizes([self.n, self.n])
        self.mat.setType('seqaij' if self.place == 'host' else 'seqaijcusparse')
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (rows, columns)]
        _call('MatSetPreallocationCOO', (self.mat, 'Mat'), ctypes.c_ssize_t(columns.size), *addresses)

    def _set(self, values: Any) -> None:
        if self.pattern:
            _wait(self.library, self.place, False)
            insert = ctypes.c_int(PETSc.InsertMode.INSERT)
            _call('MatSetValuesCOO', (self.mat, 'Mat'), ctypes.c_void_p(_pointer(values)), insert)
            _wait(self.library, self.place)  # the values may be a temporary array
        else:
            self.mat.getDenseArray()[:] = values
            self.mat.assemble()

    def update(self, values: Any) -> None:
        if self.operator:
            raise TypeError('A is a LinearOperator, whose values are not known: make another Solver')
        csr = _csr(values) if self.pattern else None
        if csr:
            values, pairs = csr[2], [*zip(csr, self.pattern)]
            if not all(_library(new) == _library(old) and new.shape == old.shape and (new == old).all() for new, old in pairs):
                raise ValueError('the matrix has another pattern than A, or belongs to another library: make another Solver')
        values, dtype = _numbers(values, 'values', self.place)
        if tuple(values.shape) != self.shape:
            raise ValueError(f'values has shape {tuple(values.shape)}, and the values of A have shape {self.shape}')
        self.dtype = dtype
        self._set(values)


def _destroy(objects: list, options: _Options) -> None:
    """Called by the garbage collector, perhaps in a thread that an operator of a solve waits for"""
    if os.getpid() != _pid or PETSc.Sys.isFinalized():
        return
    _garbage.append((objects, options))
    if _lock.acquire(blocking=False):
        try:
            _empty()
        finally:
            _lock.release()


def _empty() -> None:
    with _interrupt.deferred(finalizing=True):
        while _garbage:
            objects, options = _garbage.pop()
            while objects:
                objects.pop().destroy()
            _call('PetscOptionsDestroy', ctypes.byref(options.database))


def _check_process() -> None:
    if os.getpid() != _pid:
        raise RuntimeError("MPI and CUDA do not work in a forked process: start it with multiprocessing.get_context('spawn')")


class Solver:
    """A matrix A with its preconditioner, for several solves by IDR(s)

    A: SciPy sparse array or matrix, LinearOperator, 2-D ndarray, CuPy sparse matrix, PyTorch sparse CSR tensor
    M: None, 'jacobi', 'poly', 'ilu', 'matching', 'aggregation', 'gamg', or an operator that approximates the inverse of A
    rtol, atol: a solve has converged if norm(b - A x) <= max(rtol * norm(b), atol)
    maxiter: limit of iterations, 10 n by default; s: size of the shadow space; callback: called with x after each iteration
    recycle: a solve may begin with the search directions of the solve before it
    options: PETSc options, such as '-pc_poly_degree 16'; PETSc's own database is neither read nor changed

    Attributes: iterations and reason of the last solve, lists for a matrix b; counts; history, the residual norms, for a matrix b
    a list of arrays. A Solver in use by one thread makes other threads wait."""

    def __init__(self, A: Any, *, M: Any = None, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, s: int = 4,
                 callback: Callable | None = None, recycle: bool = False, options: str = ''):
        _check_process()
        most, its = numpy.iinfo(PETSc.IntType).max, 1 if maxiter is None else maxiter
        numbers = {'rtol': (rtol, 0, 1), 'atol': (atol, 0, numpy.inf), 's': (s, 1, most), 'maxiter': (its, 1, most)}
        for name, (value, least, limit) in numbers.items():
            if not least <= value < limit:
                raise ValueError(f'{name} is {value}, and must be at least {least} and less than {limit}')
        if callback is not None and not callable(callback):
            raise TypeError(f'callback is of type {type(callback).__name__}, and must be a function')
        self.history = self.iterations = self.reason = self._last = None
        with _lock, _interrupt.deferred():
            mat, ksp, self._options = PETSc.Mat(), PETSc.KSP(), _Options(options)
            self._finalizer = weakref.finalize(self, _destroy, [mat, ksp], self._options)
            self._ksp, self._busy, self._checked = ksp, False, False
            with self._options:
                self._matrix = _Matrix(A, mat, self._options)
                self._maxiter = min(10 * self._matrix.n, most) if maxiter is None else int(maxiter)
                ksp.create(PETSc.COMM_SELF)
                ksp.setOperators(mat)
                ksp.setType('idrs')
                _call('KSPIDRSSetShadowSize', (ksp, 'KSP'), _int()(int(s)))
                _call('KSPIDRSSetRecycle', (ksp, 'KSP'), ctypes.c_int(1 if recycle else 0))
                ksp.setTolerances(rtol=rtol, atol=atol, max_it=self._maxiter)
                self._set_preconditioner(M)
                ksp.setFromOptions()
                if ksp.type != 'idrs':
                    raise ValueError(f'options contains -ksp_type {ksp.type}, and a Solver has the type idrs')
                interrupt = ctypes.cast(petscidrs._library.KSPIDRSMonitorInterrupt, ctypes.c_void_p)
                _call('KSPMonitorSet', (ksp, 'KSP'), interrupt, ctypes.byref(_check_signals), None)
                self._monitor = callback and _Monitor(callback, self._options)
                if callback:
                    ksp.setMonitor(self._monitor)
                ksp.setUp()

    def _set_preconditioner(self, M: Any) -> None:
        pc, matrix = self._ksp.pc, self._matrix
        if M is None or isinstance(M, str):
            if M not in _preconditioners:
                raise ValueError(f'M is {M!r}, and must be an operator or one of {_preconditioners}')
            if matrix.operator and M not in (None, 'poly'):
                raise ValueError(f"M is {M!r}, which needs the entries of A, and A is an operator: use None, 'poly' or an operator")
            pc.setType(M or 'none')
        elif hasattr(M, 'matvec') or hasattr(M, 'dot'):
            pc.setType('python')
            pc.setPythonContext(_Operator(M, 'M', matrix.n, (matrix.library, matrix.place), self._options))
        else:
            raise TypeError(f'M is a {type(M).__name__}, and must be None, the name of a preconditioner or a LinearOperator')

    @contextlib.contextmanager
    def _working(self):
        """One thread at a time, with the options of this Solver"""
        _check_process()
        with _lock, _interrupt.deferred():
            if not self._finalizer.alive:
                raise ValueError('this Solver has been closed')
            if self._busy:
                raise RuntimeError('a callback cannot use the Solver that has called it: make another Solver')
            self._busy = True
            try:
                with self._options:
                    yield self._ksp
            finally:
                self._busy = False
                _empty()

    def solve(self, b: Any, x0: Any = None) -> tuple[Any, int]:
        """(x, info) for a vector b, or a matrix b of several right-hand sides, with the initial guess x0 or zero

        x has the shape, kind and memory of b. info: 0 if all right-hand sides have converged; the number of iterations if a solve
        has reached maxiter; a negative number, KSPConvergedReason of PETSc, if a solve has failed"""
        with self._working() as ksp:
            n, place, like = self._matrix.n, self._matrix.place, _library(b)
            B, dtype = _numbers(b, 'b', place)
            shape = tuple(B.shape)
            if len(shape) not in (1, 2) or shape[0] != n or not shape[-1]:
                raise ValueError(f'b has shape {shape}, and A has {n} rows: b must have the shape ({n},) or ({n}, k)')
            dtype = numpy.result_type(self._matrix.dtype, dtype)
            dtype = dtype if dtype.char in 'fdFD' else numpy.dtype('D' if dtype.kind == 'c' else 'd')
            # Each row of a work array is one vector
            B = _contiguous(B.reshape(n, -1).T)
            X = sys.modules[_library(B)].zeros_like(B)
            if x0 is not None:
                guess, guess_dtype = _numbers(x0, 'x0', place)
                if tuple(guess.shape) != shape or _library(guess) != _library(B):
                    raise ValueError(f'x0 is a {type(x0).__name__} of shape {tuple(guess.shape)}, and b a {type(b).__name__} of '
                                     f'shape {shape}: they must be the same')
                if guess_dtype.kind == 'c' and dtype.kind != 'c':
                    raise TypeError(f'x0 has dtype {guess_dtype}, and x has dtype {dtype}, as A and b: use the real part of x0')
                X += guess.reshape(n, -1).T
                X *= (B != 0).any(1)[:, None]  # as in SciPy, x = 0 if b = 0
            if self._monitor:
                self._monitor.like, self._monitor.dtype, self._monitor.place = like, dtype, (_library(B), place)
            self._run(ksp, B, X, x0 is not None)
            x = _finished(X.T.reshape(shape), like, dtype)
            unused = [] if self._checked else self._options.unused()
            self._checked = True
            if unused:
                raise ValueError(f'PETSc has not used these options: {", ".join(unused)}')
            limit = PETSc.KSP.ConvergedReason.DIVERGED_MAX_IT
            failures = [reason for reason, *_ in self._last if reason < 0 and reason != limit]
            return x, min(failures, default=max((its for reason, its, _ in self._last if reason == limit), default=0))

    def _run(self, ksp: PETSc.KSP, B: Any, X: Any, guess: bool) -> None:
        """Solves for the rows of B, and stores the results"""
        count, self._last = len(B), None
        ksp.setInitialGuessNonzero(guess)
        ksp.setConvergenceHistory(min(count * (self._maxiter + 1), _history))
        objects = [self._wrap(array) for array in (B, X)]
        _wait(_library(B), self._matrix.place, False)
        try:
            arguments = [(ksp, 'KSP')] + [(each, type(each).__name__) for each in objects]
            _interrupt.call(_call, 'KSPSolve' if count == 1 else 'KSPMatSolve', *arguments)
        finally:
            _wait(_library(B), self._matrix.place)
        one = (int(ksp.getConvergedReason()), ksp.getIterationNumber(), ksp.getResidualNorm())
        self._last = [one] if count == 1 else petscidrs.column_results(ksp)
        names = ctypes.POINTER(ctypes.c_char_p).in_dll(petscidrs._library, 'KSPConvergedReasons')
        self.reason = [names[reason].decode() for reason, *_ in self._last]
        self.iterations = [its for _, its, _ in self._last]
        ends = numpy.cumsum([its + int(numpy.isfinite(norm)) for _, its, norm in self._last])  # NaN ends a history without it
        self.history = numpy.split(numpy.array(ksp.getConvergenceHistory()), ends[:-1])
        if count == 1:
            self.reason, self.iterations, self.history = self.reason[0], self.iterations[0], self.history[0]

    def _wrap(self, array: Any) -> Any:
        """A Vec, or a dense Mat, whose entries are the rows of a work array"""
        count, n = array.shape
        host, comm = self._matrix.place == 'host', PETSc.COMM_SELF
        if count == 1 and host:
            return PETSc.Vec().createWithArray(array[0], comm=comm)
        if count == 1:
            return PETSc.Vec().createCUDAWithArrays(None, _pointer(array), n, comm=comm)
        if host:
            dense = PETSc.Mat().createDense([n, count], array=array.T, comm=comm)
        else:
            dense = PETSc.Mat().createDenseCUDA([n, count], cudahandle=_pointer(array), comm=comm)
        dense.assemble()
        return dense

    def update(self, values: Any) -> None:
        """Replaces the values of A: an array in the order of the values of A (A.data in the format CSR), or a matrix of the same
        pattern. The next solve sets up the preconditioner again"""
        with self._working():
            self._matrix.update(values)

    @property
    def counts(self) -> petscidrs.Counts:
        """Matvecs, reductions, reliable updates and restarts of the last solve"""
        with self._working() as ksp:
            return petscidrs.counts(ksp)

    def close(self) -> None:
        """Frees the matrix, the preconditioner and the vectors"""
        if self._finalizer.alive:
            with self._working():
                pass
            self._finalizer()

    def __enter__(self) -> Solver:
        with self._working():
            return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __str__(self) -> str:
        if not self._finalizer.alive:
            return 'petscidrs.Solver, closed'
        with self._working() as ksp:
            s, matvecs = _int()(), petscidrs.counts(ksp).matvecs
            _call('KSPIDRSGetShadowSize', (ksp, 'KSP'), ctypes.byref(s))
            matrix = self._matrix
            entries = 'an operator' if matrix.operator else f'{numpy.prod(matrix.shape)} nonzeros'
            text = f'petscidrs.Solver: {matrix.n} rows, {entries}, memory {matrix.place}, IDR({s.value}), preconditioner '
            text += f'{ksp.pc.type}\n'
            last, names = self._last, self.reason
        if not last:
            return text + 'no solve so far'
        count, names = len(last), names if len(last) > 1 else [names]
        columns, names = f'{count} right-hand sides, ' if count > 1 else '', ', '.join(dict.fromkeys(names))
        its, norm = max(its for _, its, _ in last), max(norm for *_, norm in last)
        return text + f'last solve: {columns}{its} iterations, {matvecs} matvecs, {names}, residual norm {norm:.3g}'


def idrs(A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None,
         callback: Callable | None = None, s: int = 4, options: str = '') -> tuple[Any, int]:
    """Solves A x = b by IDR(s), with the arguments and results of scipy.sparse.linalg.bicgstab

    Returns (x, info) as Solver.solve() does. The other arguments are those of Solver. For several systems with one A use Solver"""
    with Solver(A, M=M, rtol=rtol, atol=atol, maxiter=maxiter, callback=callback, s=s, options=options) as solver:
        return solver.solve(b, x0)
