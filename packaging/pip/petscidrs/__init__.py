"""The Krylov solver IDR(s), KSP type "idrs", and a polynomial preconditioner, PC type "poly", for PETSc

For arrays of NumPy, SciPy, CuPy and PyTorch:

  x, info = petscidrs.idrs(A, b)      # class Solver keeps the set-up

For programs with petsc4py:

  import petsc4py
  petsc4py.init()
  from petsc4py import PETSc
  import petscidrs
  petscidrs.register()
  ksp.setType('idrs')

plugin() is the path of the library, for -dll_append. The other functions are what has no option. Errors of PETSc are PETSc.Error, a PETSc
that the plugin was not compiled for is a RuntimeError, an argument of another type than in petsc4py a TypeError."""

import collections
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import warnings

_here = pathlib.Path(__file__).resolve().parent
_built = json.loads((_here / 'build.json').read_text())
_library = None

__version__ = _built.pop('version')

Counts = collections.namedtuple('Counts', 'matvecs reductions updates restarts')


def _petsc4py_lacks():
    """What keeps this Python from using petsc4py, as a sentence, or nothing"""
    spec = importlib.util.find_spec('petsc4py')
    places = [pathlib.Path(place) for place in spec.submodule_search_locations or []] if spec else []
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    if any(file.name in ['PETSc' + suffix for suffix in suffixes] for place in places for file in place.glob('lib/**/PETSc*')):
        return None
    lacks = f'the petsc4py in {places[0]} was built for another Python than {sys.executable}' if places else f'{sys.executable} has no petsc4py'
    return (f'{lacks}, and petscidrs.register() needs one; for petsc4py of Debian or Ubuntu use an environment made by '
            '"/usr/bin/python3 -m venv --system-site-packages", otherwise "pip install petsc petsc4py" before petscidrs')


def plugin():
    """Path of the plugin, for the option -dll_append"""
    return str(_here / 'lib' / 'libpetscidrs.so')


def _advise():
    """The command petscidrs-advise"""
    script = str(_here / 'lib/petscidrs-advise')
    os.environ.update(ADVISE_PROGRAM=str(_here / 'lib/advise'), ADVISE_PLUGIN=plugin())
    os.execv(script, [script, *sys.argv[1:]])


def include():
    """Directory of petscidrs.h"""
    return str(_here / 'include')


def built_for():
    """What is known of the PETSc that the plugin was compiled for: a dictionary"""
    return dict(_built)


def _describe(complex_, precision, integers):
    return f'{"complex" if complex_ else "real"} scalars, {precision} precision, integers of {integers} bits'


def _check(PETSc):
    """A plugin in a program of another PETSc would bring its own PETSc with it, which nobody has initialized"""
    import numpy

    precision = {4: 'single', 8: 'double'}.get(numpy.dtype(PETSc.RealType).itemsize, 'another')
    there = _describe(numpy.dtype(PETSc.ScalarType).kind == 'c', precision, 8 * numpy.dtype(PETSc.IntType).itemsize)
    ours = _describe(_built['complex'], _built['precision'], _built['integers'])
    version = '.'.join(str(number) for number in PETSc.Sys.getVersion()[:2])
    again = 'compile it for this one: pip install --force-reinstall --no-deps, with PETSC_DIR and PETSC_ARCH'
    if version != '.'.join(_built['petsc'].split('.')[:2]):
        raise RuntimeError(f'petscidrs was compiled for PETSc {_built["petsc"]}, and petsc4py has PETSc {version}; {again}')
    if there != ours:
        raise RuntimeError(f'petscidrs was compiled for a PETSc with {ours}, and that of petsc4py has {there}; {again}')
    with open('/proc/self/maps') as maps:
        loaded = {pathlib.Path(line.split(maxsplit=5)[5].strip()) for line in maps if '/libpetsc' in line}
    names = {path.name for path in loaded} | {alias.name for path in loaded for alias in path.parent.glob('libpetsc*.so*') if alias.resolve() == path.resolve()}
    if _built['library'] not in names:
        raise RuntimeError(f'petscidrs was linked with {_built["library"]}, and petsc4py with {", ".join(sorted(p.name for p in loaded)) or "none"}; {again}')


def register():
    """Registers the types with PETSc, once or more often, after petsc4py.init() or from petsc4py import PETSc"""
    global _library
    lacks = _petsc4py_lacks()
    if lacks:
        raise ImportError(lacks)
    from petsc4py import PETSc

    if not PETSc.Sys.isInitialized():
        raise RuntimeError('petscidrs.register() comes after petsc4py.init() and "from petsc4py import PETSc"')
    if _library is None:
        _check(PETSc)
        _library = ctypes.PyDLL(plugin())  # keeps the GIL, because PETSc may call functions in Python
    _call('KSPIDRSRegister')


def _object(argument, name):
    """The pointer to an object of PETSc, of the class of this name"""
    from petsc4py import PETSc

    if not isinstance(argument, getattr(PETSc, name)):
        raise TypeError(f'the argument must be a petsc4py.PETSc.{name}, not {type(argument).__name__}')
    if not argument.handle:
        raise ValueError(f'this petsc4py.PETSc.{name} has not been created, or has been destroyed')
    return ctypes.c_void_p(argument.handle)


def _call(name, *arguments):
    """Calls a function of the plugin; pairs of an object of petsc4py and the name of its class are passed as pointers"""
    if _library is None:
        raise RuntimeError(f'petscidrs.register() comes before {name}()')
    from petsc4py import PETSc

    code = getattr(_library, name)(*[_object(*argument) if isinstance(argument, tuple) else argument for argument in arguments])
    if code:
        raise PETSc.Error(code)


def _int():
    return ctypes.c_int64 if _built['integers'] == 64 else ctypes.c_int32


def _real():
    return ctypes.c_float if _built['precision'] == 'single' else ctypes.c_double


def set_shadow_vecs(ksp, vecs):
    """Explicit shadow vectors, KSPIDRSSetShadowVecs(); none for the hashed ones"""
    vecs = [_object(vec, 'Vec') for vec in vecs or []]
    _call('KSPIDRSSetShadowVecs', (ksp, 'KSP'), _int()(len(vecs)), (ctypes.c_void_p * max(len(vecs), 1))(*vecs))


def counts(ksp):
    """Matvecs, reductions, reliable updates and restarts of the last solve, KSPIDRSGetCounts()"""
    numbers = [_int()() for _ in Counts._fields]
    _call('KSPIDRSGetCounts', (ksp, 'KSP'), *map(ctypes.byref, numbers))
    return Counts(*[number.value for number in numbers])


def column_results(ksp):
    """Reason, iterations and residual norm of each right-hand side of the last KSPMatSolve(), KSPIDRSGetColumnResults()"""
    n, reasons, its, norms = _int()(), ctypes.POINTER(ctypes.c_int)(), ctypes.POINTER(_int())(), ctypes.POINTER(_real())()
    _call('KSPIDRSGetColumnResults', (ksp, 'KSP'), ctypes.byref(n), ctypes.byref(reasons), ctypes.byref(its), ctypes.byref(norms))
    return [(reasons[j], its[j], norms[j]) for j in range(n.value)]


def set_poly_roots(pc, roots):
    """Roots of the residual polynomial of PC type poly, complex or real numbers, PCPolySetRoots()"""
    roots = [complex(root) for root in roots]
    parts = [(_real() * max(len(roots), 1))(*values) for values in ([root.real for root in roots], [root.imag for root in roots])]
    _call('PCPolySetRoots', (pc, 'PC'), _int()(len(roots)), *parts)


def poly_roots(pc):
    """Roots in use, complex numbers, PCPolyGetRoots()"""
    count, re, im = _int()(), ctypes.POINTER(_real())(), ctypes.POINTER(_real())()
    _call('PCPolyGetRoots', (pc, 'PC'), ctypes.byref(count), ctypes.byref(re), ctypes.byref(im))
    return [complex(re[k], im[k]) for k in range(count.value)]


def __getattr__(name):
    """idrs() and Solver need petsc4py and NumPy, and start PETSc: they are imported at their first use"""
    if name in ('idrs', 'Solver'):
        from petscidrs import solver

        globals().update(idrs=solver.idrs, Solver=solver.Solver)
        return globals()[name]
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


# petscidrs-advise needs no petsc4py
if pathlib.Path(sys.argv[0]).name != 'petscidrs-advise' and _petsc4py_lacks():
    warnings.warn(_petsc4py_lacks(), RuntimeWarning, stacklevel=2)
