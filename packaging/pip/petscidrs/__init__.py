"""The Krylov solver IDR(s), KSP type "idrs", and a polynomial preconditioner, PC type "poly", for PETSc

  import petsc4py
  petsc4py.init()
  from petsc4py import PETSc
  import petscidrs
  petscidrs.register()
  ksp.setType('idrs')

plugin() is the path of the library, for -dll_append. The other functions are what has no option. Errors of PETSc are PETSc.Error, a PETSc
that the plugin was not compiled for is a RuntimeError."""

import collections
import ctypes
import json
import os
import pathlib
import sys

_here = pathlib.Path(__file__).resolve().parent
_built = json.loads((_here / 'build.json').read_text())
_library = None

__version__ = _built.pop('version')

Counts = collections.namedtuple('Counts', 'matvecs reductions updates restarts')


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
    from petsc4py import PETSc

    if not PETSc.Sys.isInitialized():
        raise RuntimeError('petscidrs.register() comes after petsc4py.init() and "from petsc4py import PETSc"')
    if _library is None:
        _check(PETSc)
        _library = ctypes.CDLL(plugin())
    _call('KSPIDRSRegister')


def _call(name, *arguments):
    """Calls a function of the plugin; objects of petsc4py are passed as what they stand for"""
    from petsc4py import PETSc

    if _library is None:
        raise RuntimeError(f'petscidrs.register() comes before {name}()')
    code = getattr(_library, name)(*[ctypes.c_void_p(argument.handle) if hasattr(argument, 'handle') else argument for argument in arguments])
    if code:
        raise PETSc.Error(code)


def _int():
    return ctypes.c_int64 if _built['integers'] == 64 else ctypes.c_int32


def _real():
    return ctypes.c_float if _built['precision'] == 'single' else ctypes.c_double


def set_shadow_vecs(ksp, vecs):
    """Explicit shadow vectors, KSPIDRSSetShadowVecs(); none for the hashed ones"""
    vecs = list(vecs or [])
    array = (ctypes.c_void_p * max(len(vecs), 1))(*[vec.handle for vec in vecs])
    _call('KSPIDRSSetShadowVecs', ksp, _int()(len(vecs)), array)


def counts(ksp):
    """Matvecs, reductions, reliable updates and restarts of the last solve, KSPIDRSGetCounts()"""
    numbers = [_int()() for _ in Counts._fields]
    _call('KSPIDRSGetCounts', ksp, *map(ctypes.byref, numbers))
    return Counts(*[number.value for number in numbers])


def column_results(ksp):
    """Reason, iterations and residual norm of each right-hand side of the last KSPMatSolve(), KSPIDRSGetColumnResults()"""
    n, reasons, its, norms = _int()(), ctypes.POINTER(ctypes.c_int)(), ctypes.POINTER(_int())(), ctypes.POINTER(_real())()
    _call('KSPIDRSGetColumnResults', ksp, ctypes.byref(n), ctypes.byref(reasons), ctypes.byref(its), ctypes.byref(norms))
    return [(reasons[j], its[j], norms[j]) for j in range(n.value)]


def set_poly_roots(pc, roots):
    """Roots of the residual polynomial of PC type poly, complex or real numbers, PCPolySetRoots()"""
    roots = [complex(root) for root in roots]
    parts = [(_real() * max(len(roots), 1))(*values) for values in ([root.real for root in roots], [root.imag for root in roots])]
    _call('PCPolySetRoots', pc, _int()(len(roots)), *parts)


def poly_roots(pc):
    """Roots in use, complex numbers, PCPolyGetRoots()"""
    count, re, im = _int()(), ctypes.POINTER(_real())(), ctypes.POINTER(_real())()
    _call('PCPolyGetRoots', pc, ctypes.byref(count), ctypes.byref(re), ctypes.byref(im))
    return [complex(re[k], im[k]) for k in range(count.value)]
