!  A substance in a circular current, convection and diffusion in a square with central differences, in Fortran:
!
!     -n k         points in each direction (default 60)
!     -peclet p    (default 200)
!
!  The program is compiled without the plugin. Options load it and select the method:
!
!     ./ex7 -dll_append path/libpetscidrs.so -ksp_type idrs -ksp_idrs_s 8 -pc_type jacobi
!
!  The environment may hold the options, too: PETSC_OPTIONS="-dll_append path/libpetscidrs.so -ksp_type idrs". A program can also
!  select the method by call KSPSetType(ksp, 'idrs', ierr); it still needs -dll_append. On a GPU: -mat_type aijcusparse -vec_type cuda.
!
program main
#include <petsc/finclude/petscksp.h>
  use petscksp
  implicit none

  PetscInt :: n = 60, row, first, last, i, j, its
  PetscReal :: peclet = 200.0, h, cx, cy, rtol = 1e-5, rnorm, bnorm
  PetscScalar, parameter :: one = 1.0
  PetscScalar :: value
  PetscBool :: set
  Mat :: A
  Vec :: b, x, r
  KSP :: ksp
  PetscErrorCode :: ierr
  character(len=80) :: line

  PetscCallA(PetscInitialize(ierr))
  PetscCallA(PetscOptionsGetInt(PETSC_NULL_OPTIONS, PETSC_NULL_CHARACTER, '-n', n, set, ierr))
  PetscCallA(PetscOptionsGetReal(PETSC_NULL_OPTIONS, PETSC_NULL_CHARACTER, '-peclet', peclet, set, ierr))

  ! The matrix; each process has some of its rows
  PetscCallA(MatCreate(PETSC_COMM_WORLD, A, ierr))
  PetscCallA(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, n*n, n*n, ierr))
  PetscCallA(MatSetFromOptions(A, ierr))
  PetscCallA(MatSetUp(A, ierr))
  PetscCallA(MatGetOwnershipRange(A, first, last, ierr))
  h = 1.0/(n + 1)
  do row = first, last - 1
    i = mod(row, n)
    j = row/n
    cx = -peclet*((j + 1)*h - 0.5)*h/2
    cy = peclet*((i + 1)*h - 0.5)*h/2
    value = 4.0
    PetscCallA(MatSetValue(A, row, row, value, INSERT_VALUES, ierr))
    if (i > 0) then
      value = -1.0 - cx
      PetscCallA(MatSetValue(A, row, row - 1, value, INSERT_VALUES, ierr))
    end if
    if (i < n - 1) then
      value = -1.0 + cx
      PetscCallA(MatSetValue(A, row, row + 1, value, INSERT_VALUES, ierr))
    end if
    if (j > 0) then
      value = -1.0 - cy
      PetscCallA(MatSetValue(A, row, row - n, value, INSERT_VALUES, ierr))
    end if
    if (j < n - 1) then
      value = -1.0 + cy
      PetscCallA(MatSetValue(A, row, row + n, value, INSERT_VALUES, ierr))
    end if
  end do
  PetscCallA(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY, ierr))
  PetscCallA(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY, ierr))
  PetscCallA(MatCreateVecs(A, x, b, ierr))
  PetscCallA(VecSet(b, one, ierr))

  ! The solver is what the options say
  PetscCallA(KSPCreate(PETSC_COMM_WORLD, ksp, ierr))
  PetscCallA(KSPSetOperators(ksp, A, A, ierr))
  PetscCallA(KSPSetPCSide(ksp, PC_RIGHT, ierr))
  PetscCallA(KSPSetFromOptions(ksp, ierr))
  PetscCallA(KSPSolve(ksp, b, x, ierr))

  ! What the solution is worth, by the tolerance of the options or else PETSc's
  PetscCallA(PetscOptionsGetReal(PETSC_NULL_OPTIONS, PETSC_NULL_CHARACTER, '-ksp_rtol', rtol, set, ierr))
  PetscCallA(KSPGetIterationNumber(ksp, its, ierr))
  PetscCallA(VecDuplicate(b, r, ierr))
  PetscCallA(MatMult(A, x, r, ierr))
  PetscCallA(VecAYPX(r, -one, b, ierr))
  PetscCallA(VecNorm(r, NORM_2, rnorm, ierr))
  PetscCallA(VecNorm(b, NORM_2, bnorm, ierr))
  write (line, '(i6, a, es9.2, a)') its, ' iterations, |b-Ax|/|b|', rnorm/bnorm, new_line('a')
  PetscCallA(PetscPrintf(PETSC_COMM_WORLD, line, ierr))
  if (rnorm <= 1.1*rtol*bnorm) then
    PetscCallA(PetscPrintf(PETSC_COMM_WORLD, 'residual: as small as asked for'//new_line('a'), ierr))
  else
    PetscCallA(PetscPrintf(PETSC_COMM_WORLD, 'residual: too large'//new_line('a'), ierr))
  end if

  PetscCallA(VecDestroy(r, ierr))
  PetscCallA(VecDestroy(x, ierr))
  PetscCallA(VecDestroy(b, ierr))
  PetscCallA(KSPDestroy(ksp, ierr))
  PetscCallA(MatDestroy(A, ierr))
  PetscCallA(PetscFinalize(ierr))
end program main

!/*TEST
!
!  test:
!    requires: fortran double
!    nsize: {{1 2}}
!    args: -ksp_type idrs -pc_type {{none jacobi}} -ksp_rtol 1e-8
!    filter: grep residual
!
!TEST*/
