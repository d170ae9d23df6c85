#!/usr/bin/env python3
"""A substance in a circular current, convection and diffusion in a square with finite elements, in DOLFINx.

   python3 ex9.py path/libpetscidrs.so [options of PETSc]

PETSc starts when DOLFINx is imported, and then reads PETSC_OPTIONS. Set this variable before the import, as below, or run an
unchanged script with PETSC_OPTIONS="-dll_append path/libpetscidrs.so". Options of the solver follow the path of the plugin.
"""
import os
import sys

if len(sys.argv) < 2 or not os.path.isfile(sys.argv[1]):
    sys.exit('ex9.py: give the path of the plugin, which make -s plugin-path prints')
os.environ['PETSC_OPTIONS'] = ' '.join(['-dll_append', sys.argv[1], *sys.argv[2:], os.environ.get('PETSC_OPTIONS', '')])

import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc

PECLET = 200.0

domain = mesh.create_unit_square(MPI.COMM_WORLD, 60, 60)
V = fem.FunctionSpace(domain, ('Lagrange', 1))
domain.topology.create_connectivity(domain.topology.dim - 1, domain.topology.dim)
boundary = fem.locate_dofs_topological(V, domain.topology.dim - 1, mesh.exterior_facet_indices(domain.topology))
wall = fem.dirichletbc(PETSc.ScalarType(0.0), boundary, V)

u, v, x = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.SpatialCoordinate(domain)
current = PECLET * ufl.as_vector((0.5 - x[1], x[0] - 0.5))
a = fem.form((ufl.inner(ufl.grad(u), ufl.grad(v)) + ufl.dot(current, ufl.grad(u)) * ufl.conj(v)) * ufl.dx)
L = fem.form(PETSc.ScalarType(1.0) * ufl.conj(v) * ufl.dx)

A = fem.petsc.assemble_matrix(a, [wall])
A.assemble()
b = fem.petsc.assemble_vector(L)
fem.petsc.apply_lifting(b, [a], [[wall]])
b.ghostUpdate(addv=PETSc.InsertMode.ADD, mode=PETSc.ScatterMode.REVERSE)
fem.petsc.set_bc(b, [wall])

ksp = PETSc.KSP().create(domain.comm)
ksp.setOperators(A)
ksp.setType('idrs')
ksp.getPC().setType('bjacobi')
ksp.setTolerances(rtol=1e-8)
ksp.setFromOptions()
solution = fem.Function(V)
ksp.solve(b, solution.vector)

residual = (b - A * solution.vector).norm() / b.norm()
PETSc.Sys.Print(f'{ksp.getType()}: {ksp.getIterationNumber()} iterations, |b-Ax|/|b| {residual:.2e}')
solved = ksp.getConvergedReason() > 0 and residual <= 1.1 * ksp.getTolerances()[0]
PETSc.Sys.Print('residual: as small as asked for' if solved else 'residual: too large')
sys.exit(0 if solved else 1)
