#!/usr/bin/env python3
"""A substance in a circular current, convection and diffusion in a square with central differences, with petsc4py.

   -n k         points in each direction (default 60)
   -peclet p    (default 200)

PETSc loads the plugin when it starts, so give the options to petsc4py.init() before you import PETSc:

   python3 ex8.py -dll_append path/libpetscidrs.so -ksp_type idrs -ksp_idrs_s 8 -pc_type jacobi

For a program that you cannot change, set the environment: PETSC_OPTIONS="-dll_append path/libpetscidrs.so -ksp_type idrs".
A program can also select the method by ksp.setType('idrs'). On a GPU: -mat_type aijcusparse -vec_type cuda.
"""
import sys
import petsc4py
petsc4py.init(sys.argv)
from petsc4py import PETSc


def circular_current(n, peclet):
    """The matrix; each process has some of its rows."""
    A = PETSc.Mat().create()
    A.setSizes([n * n, n * n])
    A.setFromOptions()
    A.setUp()
    h = 1.0 / (n + 1)
    for row in range(*A.getOwnershipRange()):
        j, i = divmod(row, n)
        cx, cy = -peclet * ((j + 1) * h - 0.5) * h / 2, peclet * ((i + 1) * h - 0.5) * h / 2
        A[row, row] = 4.0
        if i > 0:
            A[row, row - 1] = -1.0 - cx
        if i < n - 1:
            A[row, row + 1] = -1.0 + cx
        if j > 0:
            A[row, row - n] = -1.0 - cy
        if j < n - 1:
            A[row, row + n] = -1.0 + cy
    A.assemble()
    return A


def main():
    options = PETSc.Options()
    A = circular_current(options.getInt('n', 60), options.getReal('peclet', 200.0))
    x, b = A.createVecs()
    b.set(1.0)

    ksp = PETSc.KSP().create()
    ksp.setOperators(A)
    ksp.setPCSide(PETSc.PC.Side.RIGHT)  # so that the norm is that of b - A x, whatever the method
    ksp.setTolerances(rtol=1e-8)
    ksp.setFromOptions()
    ksp.solve(b, x)

    residual = (b - A * x).norm() / b.norm()
    PETSc.Sys.Print(f'{ksp.getType()}: {ksp.getIterationNumber()} iterations, |b-Ax|/|b| {residual:.2e}')
    solved = ksp.getConvergedReason() > 0 and residual <= 1.1 * ksp.getTolerances()[0]
    PETSc.Sys.Print('residual: as small as asked for' if solved else 'residual: too large')
    return 0 if solved else 1


sys.exit(main())
