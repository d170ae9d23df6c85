static char help[] = "MATAIJSTREAM: a MATAIJ whose products are computed on an emulated device. After each operation that\n\
changes a matrix the product equals the product of a MATAIJ, and only memory that the matrix still has is pinned.\n\
  -vec_type cuda - on a GPU instead\n\n";

#define PETSC_DESIRE_FEATURE_TEST_MACROS /* for RTLD_DEFAULT */
#include "systems.h"
#include "streamdevice.h"
#include <petscidrs/private/idrspowers.h>
#include <dlfcn.h>

#define N 60

static PetscBool gpu = PETSC_FALSE;

/* Creates a matrix on the emulated device; memory 0 is the default */
static PetscErrorCode StreamCreate(Device *device, PetscReal memory, Mat *A)
{
  char options[64];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(options, sizeof(options), "-s_mat_stream_chunk 900 -s_mat_stream_memory %g", (double)memory));
  PetscCall(PetscOptionsInsertString(NULL, options));
  if (memory <= 0.0) PetscCall(PetscOptionsClearValue(NULL, "-s_mat_stream_memory"));
  PetscCall(MatCreate(PETSC_COMM_WORLD, A));
  PetscCall(MatSetOptionsPrefix(*A, "s_"));
  PetscCall(MatSetSizes(*A, PETSC_DECIDE, PETSC_DECIDE, N, N));
  PetscCall(MatSetType(*A, MATAIJSTREAM));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(DeviceCreate(RANDOM, 100000, device));
  device->waits = PETSC_TRUE;
  if (!gpu) PetscCall(IDRSStreamMatSetDevice(*A, &deviceops, device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode Fill(Mat A, PetscInt band)
{
  PetscInt begin, end;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  for (PetscInt i = begin; i < end; i++) {
    for (PetscInt j = PetscMax(i - band, 0); j < PetscMin(i + band + 1, N); j++)
      PetscCall(MatSetValue(A, i, j, i == j ? (PetscScalar)6.0 : Number(5, (uint64_t)(i * N + j)), INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates the same matrix, with a band of entries */
static PetscErrorCode StreamFill(Device *device, PetscReal memory, PetscInt band, Mat *A)
{
  PetscFunctionBeginUser;
  PetscCall(StreamCreate(device, memory, A));
  PetscCall(MatSetUp(*A));
  PetscCall(MatSetOption(*A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(Fill(*A, band));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static PetscErrorCode StreamDestroy(const char what[], Mat *A, Device *device)
{
  PetscFunctionBeginUser;
  PetscCall(MatDestroy(A));
  PetscCall(DeviceDestroy(what, device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that |x - y| is at most this number times the rounding error of y; overwrites x */
static PetscErrorCode CheckClose(const char what[], PetscReal errors, Vec x, Vec y)
{
  PetscReal norm, size;

  PetscFunctionBeginUser;
  PetscCall(VecNorm(y, NORM_INFINITY, &size));
  PetscCall(VecAXPY(x, -1.0, y));
  PetscCall(VecNorm(x, NORM_INFINITY, &norm));
  PetscCall(ComplainIf(!(norm <= errors * PETSC_MACHINE_EPSILON * size), "%s: a difference of %g, of %g", what, (double)norm,
                       (double)size));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the number of passes over the matrix so far, on this process */
static PetscErrorCode GetPasses(Mat A, PetscInt64 *passes)
{
  IDRSStream stream;

  PetscFunctionBeginUser;
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  *passes = stream ? stream->counts.passes : 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that both matrices have the same products, and that only memory of A is pinned */
static PetscErrorCode CheckSame(const char what[], Mat A, Mat B, Device *device)
{
  Vec                x, y, z, w;
  Mat                block = A;
  PetscBool          sequential, stream, mine = PETSC_TRUE;
  const PetscScalar *a;
  IDRSStream         kept;
  MatStreamSettings  settings;
  PetscMPIInt        ranks;
  char               text[128];

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, ranks == 1 ? MATSEQAIJSTREAM : MATMPIAIJSTREAM, &stream));
  PetscCall(ComplainIf(!stream, "%s: the type is %s", what, ((PetscObject)A)->type_name));
  PetscCall(MatStreamGetSettings_Private(A, &settings));
  PetscCall(ComplainIf(settings.chunk != 900.0, "%s: the settings are lost", what));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, MATSEQAIJSTREAM, &sequential));
  if (!sequential) PetscCall(MatMPIAIJGetSeqAIJ(A, &block, NULL, NULL));
  PetscCall(IDRSStreamMatGetStream(A, &kept));
  PetscCall(MatSeqAIJGetArrayRead(block, &a));
  for (PetscInt place = 0; place < MOST_PINNED; place++) {
    if (device->pinned[place] &&
        (!kept || (device->pinned[place] != (const char *)a && device->pinned[place] != kept->pattern->packed)))
      mine = PETSC_FALSE;
  }
  PetscCall(MatSeqAIJRestoreArrayRead(block, &a));
  PetscCall(ComplainIf(!mine, "%s: memory is pinned that the matrix does not have", what));
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(VecDuplicate(y, &z));
  PetscCall(VecDuplicate(y, &w));
  PetscCall(VecSetGeneral(x, 0.3));
  PetscCall(VecSetGeneral(w, 0.7));
  PetscCall(MatMult(A, x, y));
  PetscCall(VecAXPY(y, 1.0, w));
  PetscCall(MatMultAdd(B, x, w, z));
  PetscCall(PetscSNPrintf(text, sizeof(text), "%s, the product", what));
  PetscCall(CheckClose(text, 100, y, z));
  PetscCall(MatMultAdd(A, x, w, z)); /* into another vector, and in place */
  PetscCall(MatMultAdd(A, x, w, w));
  PetscCall(PetscSNPrintf(text, sizeof(text), "%s, MatMultAdd() in place", what));
  PetscCall(CheckClose(text, 0, w, z));
  PetscCall(MatMultTranspose(A, x, y));
  PetscCall(MatMultTranspose(B, x, z));
  PetscCall(PetscSNPrintf(text, sizeof(text), "%s, the product with the transpose", what));
  PetscCall(CheckClose(text, 100, y, z));
  PetscCall(ComplainIf(device->wrong, "%s: %" PetscInt_FMT " calls of the device are wrong", what, device->wrong));
  device->wrong = 0;
  PetscCall(VecDestroy(&w));
  PetscCall(VecDestroy(&z));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operations that change a matrix: its values, its nonzeros, its arrays */
typedef enum {
  SAME_VALUES,
  SET_VALUES,
  SET_SORTED,
  SCALE,
  ZERO_ENTRIES,
  ZERO_ROWS,
  SHIFT,
  DIAGONAL_SET,
  DIAGONAL_SCALE,
  CONJUGATE,
  REAL_PART,
  COPY,
  AXPY_SAME,
  AXPY_DIFFERENT,
  TRANSPOSE,
  NEW_NONZEROS,
  STORE,
  PREALLOCATE,
  COO,
  CSR,
  LOAD,
  ARRAY,
  OPERATIONS
} Change;
static const char *const changes[] = {"nothing",
                                      "MatSetValues()",
                                      "MAT_SORTED_FULL",
                                      "MatScale()",
                                      "MatZeroEntries()",
                                      "MatZeroRows()",
                                      "MatShift()",
                                      "MatDiagonalSet()",
                                      "MatDiagonalScale()",
                                      "MatConjugate()",
                                      "MatRealPart()",
                                      "MatCopy()",
                                      "MatAXPY(), same nonzeros",
                                      "MatAXPY(), other nonzeros",
                                      "MatTranspose() in place",
                                      "new nonzeros",
                                      "MatRetrieveValues()",
                                      "preallocation",
                                      "MatSetPreallocationCOO()",
                                      "preallocation of CSR",
                                      "MatLoad()",
                                      "MatSeqAIJGetArray()"};

static PetscErrorCode Apply(Mat A, Change change)
{
  PetscInt     begin, end, row = N / 2;
  Mat          B;
  Vec          d, e;
  PetscViewer  viewer;
  PetscBool    sequential;
  PetscScalar *a;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(A, &begin, &end));
  PetscCall(MatCreateVecs(A, &d, NULL));
  PetscCall(VecSetGeneral(d, 0.9));
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &sequential, MATSEQAIJ, MATSEQAIJSTREAM, ""));
  if (change == SCALE) PetscCall(MatScale(A, 1.5));
  if (change == ZERO_ENTRIES) PetscCall(MatZeroEntries(A));
  if (change == ZERO_ROWS) PetscCall(MatZeroRows(A, 1, &row, 2.0, NULL, NULL));
  if (change == SHIFT) PetscCall(MatShift(A, 2.5));
  if (change == DIAGONAL_SET) PetscCall(MatDiagonalSet(A, d, ADD_VALUES));
  if (change == DIAGONAL_SCALE) PetscCall(MatDiagonalScale(A, d, d));
  if (change == CONJUGATE) PetscCall(MatConjugate(A));
  if (change == REAL_PART) PetscCall(MatRealPart(A));
  if (change == TRANSPOSE) PetscCall(MatTranspose(A, MAT_INPLACE_MATRIX, &A));
  switch (change) {
  case SET_VALUES:
    if (begin < end) PetscCall(MatSetValue(A, begin, begin, 11.0, ADD_VALUES));
    PetscCall(MatSetValue(A, 0, 0, 0.5, ADD_VALUES)); /* added by every process */
    break;
  case SET_SORTED:
    PetscCall(MatSetOption(A, MAT_SORTED_FULL, PETSC_TRUE));
    PetscCall(MatSetOption(A, MAT_SORTED_FULL, PETSC_FALSE));
    if (begin < end) PetscCall(MatSetValue(A, begin, begin, 3.0, INSERT_VALUES));
    break;
  case COPY:
    PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
    PetscCall(MatScale(B, -3.0));
    PetscCall(MatCopy(B, A, SAME_NONZERO_PATTERN));
    PetscCall(MatDestroy(&B));
    break;
  case AXPY_SAME:
    PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
    PetscCall(MatAXPY(A, 0.5, B, SAME_NONZERO_PATTERN));
    PetscCall(MatDestroy(&B));
    break;
  case AXPY_DIFFERENT:
    PetscCall(MatCreate(PETSC_COMM_WORLD, &B));
    PetscCall(MatSetSizes(B, PETSC_DECIDE, PETSC_DECIDE, N, N));
    PetscCall(MatSetType(B, ((PetscObject)A)->type_name));
    PetscCall(MatSetUp(B));
    PetscCall(MatSetOption(B, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
    PetscCall(Fill(B, 9));
    PetscCall(MatAXPY(A, 0.5, B, DIFFERENT_NONZERO_PATTERN));
    PetscCall(MatDestroy(&B));
    break;
  case NEW_NONZEROS:
    PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
    for (PetscInt i = begin; i < end; i++) PetscCall(MatSetValue(A, i, (7 * i + 3) % N, Number(9, (uint64_t)i), ADD_VALUES));
    break;
  case STORE:
    PetscCall(MatSetOption(A, MAT_NEW_NONZERO_LOCATIONS, PETSC_FALSE));
    PetscCall(MatStoreValues(A));
    PetscCall(MatScale(A, 4.0));
    PetscCall(VecDuplicate(d, &e));
    PetscCall(MatMult(A, d, e)); /* copies the values to the device */
    PetscCall(VecDestroy(&e));
    PetscCall(MatRetrieveValues(A));
    PetscCall(MatSetOption(A, MAT_NEW_NONZERO_LOCATIONS, PETSC_TRUE));
    break;
  case PREALLOCATE:
    PetscCall(MatSeqAIJSetPreallocation(A, 5, NULL));
    PetscCall(MatMPIAIJSetPreallocation(A, 5, NULL, 5, NULL));
    PetscCall(Fill(A, 2));
    break;
  case COO: {
    PetscInt    i[3 * N], j[3 * N], count = 0;
    PetscScalar v[3 * N];

    for (PetscInt r = begin; r < end; r++) {
      for (PetscInt c = 0; c < 3; c++) {
        i[count]   = r;
        j[count]   = (r + 7 * c) % N;
        v[count++] = Number(8, (uint64_t)(3 * r + c));
      }
    }
    PetscCall(MatSetPreallocationCOO(A, count, i, j));
    PetscCall(MatSetValuesCOO(A, v, INSERT_VALUES));
    break;
  }
  case CSR: {
    PetscInt    i[N + 1], j[N];
    PetscScalar v[N];

    for (PetscInt r = 0; r <= end - begin; r++) i[r] = r;
    for (PetscInt r = 0; r < end - begin; r++) {
      j[r] = (begin + r + 4) % N;
      v[r] = Number(12, (uint64_t)(begin + r));
    }
    PetscCall(MatSeqAIJSetPreallocationCSR(A, i, j, v));
    PetscCall(MatMPIAIJSetPreallocationCSR(A, i, j, v));
    break;
  }
  case LOAD:
    PetscCall(PetscViewerBinaryOpen(PETSC_COMM_WORLD, "mat_aijstream.bin", FILE_MODE_WRITE, &viewer));
    PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
    PetscCall(MatScale(B, -1.0));
    PetscCall(MatView(B, viewer));
    PetscCall(PetscViewerDestroy(&viewer));
    PetscCall(MatDestroy(&B));
    PetscCall(PetscViewerBinaryOpen(PETSC_COMM_WORLD, "mat_aijstream.bin", FILE_MODE_READ, &viewer));
    PetscCall(MatLoad(A, viewer));
    PetscCall(PetscViewerDestroy(&viewer));
    break;
  case ARRAY:
    B = A;
    if (!sequential) PetscCall(MatMPIAIJGetSeqAIJ(A, &B, NULL, NULL));
    PetscCall(MatSeqAIJGetArray(B, &a));
    if (begin < end) a[0] += 5.0;
    PetscCall(MatSeqAIJRestoreArray(B, &a));
    break;
  default:
    break;
  }
  if (change == SET_VALUES || change == SET_SORTED || change == NEW_NONZEROS) {
    PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  }
  PetscCall(VecDestroy(&d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Makes each operation with a new matrix, then all with the same matrix; with memory for a part of it, and for all */
static PetscErrorCode TestChanges(void)
{
  PetscFunctionBeginUser;
  for (PetscInt large = 0; large < 2; large++) {
    for (PetscInt together = 0; together < 2; together++) {
      Mat    A = NULL, B = NULL;
      Device device;

      for (Change change = SAME_VALUES; change < OPERATIONS; change++) {
        if (change == COO && PETSC_VERSION_LT(3, 22, 0)) continue; /* MatSetPreallocationCOO() leaks */
        if (!A) {
          PetscCall(StreamCreate(&device, large ? 1e6 : 5000.0, &A));
          PetscCall(MatCreate(PETSC_COMM_WORLD, &B));
          PetscCall(MatSetSizes(B, PETSC_DECIDE, PETSC_DECIDE, N, N));
          PetscCall(MatSetType(B, MATAIJ));
          for (PetscInt second = 0; second < 2; second++) {
            Mat M = second ? B : A;

            PetscCall(MatSeqAIJSetPreallocation(M, N, NULL));
            PetscCall(MatMPIAIJSetPreallocation(M, N, NULL, N, NULL));
            PetscCall(Fill(M, 2));
          }
          PetscCall(CheckSame("as made", A, B, &device));
        }
        PetscCall(Apply(A, change));
        PetscCall(Apply(B, change));
        PetscCall(CheckSame(changes[change], A, B, &device));
        if (together && change < OPERATIONS - 1) continue;
        PetscCall(MatDestroy(&B));
        PetscCall(StreamDestroy(changes[change], &A, &device));
      }
    }
  }
  PetscCall(Verdict("operations that change a matrix"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that both matrices are equal, and that the first one has these types on one and on several processes */
static PetscErrorCode CheckEqual(const char what[], Mat A, Mat B, MatType sequential, MatType parallel)
{
  PetscBool same;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompareAny((PetscObject)A, &same, sequential, parallel, ""));
  PetscCall(ComplainIf(!same, "%s: type %s", what, ((PetscObject)A)->type_name));
  PetscCall(MatMultEqual(A, B, 3, &same));
  PetscCall(ComplainIf(!same, "%s: another matrix", what));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Conversions, copies, factors, diagonals and submatrices without a device, as with a MATAIJ */
static PetscErrorCode TestAIJ(void)
{
  const char *const packages[] = {PCLU, PCILU, PCSOR, PCBJIDRS};
  Mat               A, B, C;
  Vec               x, b, d, e;
  PetscBool         same;
  PetscReal         norm, size;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, N, N));
  PetscCall(MatSetType(A, MATAIJSTREAM));
  PetscCall(MatSetUp(A));
  PetscCall(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscCall(Fill(A, 3));
  PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &B));
  PetscCall(CheckEqual("converted to MATAIJ", B, A, MATSEQAIJ, MATMPIAIJ));
  PetscCall(MatConvert(B, MATAIJSTREAM, MAT_INITIAL_MATRIX, &C));
  PetscCall(CheckEqual("converted from MATAIJ", C, A, MATSEQAIJSTREAM, MATMPIAIJSTREAM));
  PetscCall(MatConvert(C, MATAIJ, MAT_INPLACE_MATRIX, &C));
  PetscCall(MatConvert(C, MATAIJSTREAM, MAT_INPLACE_MATRIX, &C));
  PetscCall(MatScale(C, 2.0));
  PetscCall(MatConvert(C, MATAIJ, MAT_REUSE_MATRIX, &B));
  PetscCall(CheckEqual("converted in place, and to a MATAIJ that exists", B, C, MATSEQAIJ, MATMPIAIJ));
  PetscCall(MatDestroy(&C));
  PetscCall(MatConvert(A, MATDENSE, MAT_INITIAL_MATRIX, &C));
  PetscCall(CheckEqual("converted to MATDENSE", C, A, MATSEQDENSE, MATMPIDENSE));
  PetscCall(MatConvert(C, MATAIJSTREAM, MAT_INPLACE_MATRIX, &C));
  PetscCall(CheckEqual("converted from MATDENSE", C, A, MATSEQAIJSTREAM, MATMPIAIJSTREAM));
  PetscCall(MatDestroy(&C));
  PetscCall(MatConvert(A, MATBAIJ, MAT_INITIAL_MATRIX, &C));
  PetscCall(MatScale(A, 0.25));
  PetscCall(MatConvert(A, MATBAIJ, MAT_REUSE_MATRIX, &C));
  PetscCall(CheckEqual("converted to a MATBAIJ that exists", C, A, MATSEQBAIJ, MATMPIBAIJ));
  PetscCall(MatScale(C, 4.0));
  PetscCall(MatConvert(C, MATAIJSTREAM, MAT_REUSE_MATRIX, &A));
  PetscCall(CheckEqual("converted from MATBAIJ", A, C, MATSEQAIJSTREAM, MATMPIAIJSTREAM));
  PetscCall(MatDestroy(&C));
  PetscCall(MatScale(B, 0.5));
  PetscCall(MatMatMult(A, A, MAT_INITIAL_MATRIX, PETSC_DEFAULT, &C));
  PetscCall(MatMatMultEqual(B, B, C, 3, &same));
  PetscCall(ComplainIf(!same, "MatMatMult(): another matrix"));
  PetscCall(MatDestroy(&C));
  PetscCall(MatPtAP(A, A, MAT_INITIAL_MATRIX, PETSC_DEFAULT, &C));
  PetscCall(MatPtAPMultEqual(B, B, C, 3, &same));
  PetscCall(ComplainIf(!same, "MatPtAP(): another matrix"));
  PetscCall(MatDestroy(&C));
  PetscCall(MatCreateVecs(A, &d, &e));
  PetscCall(MatGetDiagonal(A, d));
  PetscCall(MatGetDiagonal(B, e));
  PetscCall(CheckClose("the diagonal", 0, d, e));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(b, 0.2));
  for (size_t p = 0; p < PETSC_STATIC_ARRAY_LENGTH(packages); p++) {
    KSP ksp, *sub;
    PC  pc, subpc;

    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, A, A));
    PetscCall(KSPSetTolerances(ksp, 100 * PETSC_MACHINE_EPSILON, 0.0, PETSC_DEFAULT, 1000));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCBJACOBI));
    PetscCall(KSPSetUp(ksp));
    PetscCall(PCBJacobiGetSubKSP(pc, NULL, NULL, &sub));
    PetscCall(KSPGetPC(sub[0], &subpc));
    PetscCall(PCSetType(subpc, packages[p]));
    PetscCall(PetscStrcmp(packages[p], PCBJIDRS, &same));
    if (same) PetscCall(PCSetType(pc, PCBJIDRS));
    if (same) PetscCall(KSPSetType(ksp, KSPFGMRES));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(ResidualNorm(A, b, x, &norm, &size));
    PetscCall(ComplainIf(!(norm <= PetscSqrtReal(PETSC_MACHINE_EPSILON)), "%s: the residual is %g", packages[p], (double)norm));
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&e));
  PetscCall(VecDestroy(&d));
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("a MATAIJ"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A matrix that is factored in place has other arrays, and is a MATSEQAIJ */
static PetscErrorCode TestInPlace(void)
{
  Mat           A, B;
  Vec           x, b;
  IS            rows;
  MatFactorInfo info;
  PetscReal     norm, size;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_SELF, &A));
  PetscCall(MatSetSizes(A, N, N, N, N));
  PetscCall(MatSetType(A, MATSEQAIJSTREAM));
  PetscCall(MatSeqAIJSetPreallocation(A, 7, NULL));
  PetscCall(Fill(A, 3));
  PetscCall(MatConvert(A, MATSEQAIJ, MAT_INITIAL_MATRIX, &B));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSetGeneral(b, 0.4));
  PetscCall(ISCreateStride(PETSC_COMM_SELF, N, 0, 1, &rows));
  PetscCall(ISSetPermutation(rows));
  PetscCall(MatFactorInfoInitialize(&info));
  info.fill = 2.0;
  PetscCall(MatLUFactor(A, rows, rows, &info));
  PetscCall(MatSolve(A, b, x));
  PetscCall(ResidualNorm(B, b, x, &norm, &size));
  PetscCall(ComplainIf(!(norm <= 1000 * PETSC_MACHINE_EPSILON), "factored in place: the residual is %g", (double)norm));
  PetscCall(ISDestroy(&rows));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&B));
  PetscCall(MatDestroy(&A));
  PetscCall(Verdict("a factor in place"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks the first number behind this text in the detailed view of a matrix, which has one such line */
static PetscErrorCode CheckView(Mat A, const char text[], PetscReal number)
{
  PetscViewer viewer;
  PetscReal   found = -1.0;
  PetscInt    lines;

  PetscFunctionBeginUser;
  PetscCall(PetscViewerASCIIOpen(PETSC_COMM_WORLD, "mat_aijstream.txt", &viewer));
  PetscCall(PetscViewerPushFormat(viewer, PETSC_VIEWER_ASCII_INFO_DETAIL));
  PetscCall(MatView(A, viewer));
  PetscCall(PetscViewerPopFormat(viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  PetscCall(FileNumbers("mat_aijstream.txt", text, 1, &found, &lines));
  PetscCall(ComplainIf(lines != 1 || found != number, "the view has %g after \"%s\" in %" PetscInt_FMT " lines", (double)found,
                       text, lines));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Settings are copied, and options with the present values change nothing */
static PetscErrorCode TestSettings(void)
{
  Mat               A, B, off;
  Device            device;
  Vec               x, y, z, ghosts;
  PetscMPIInt       ranks;
  MatStreamSettings settings;
  IDRSStream        stream;
  IDRSStreamCounts  before, after;
  VecScatter        scatter;
  PetscObjectId     ids[2] = {0, 0};

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  PetscCall(StreamFill(&device, 5000.0, 3, &A));
  PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
  PetscCall(MatStreamGetSettings_Private(B, &settings));
  PetscCall(ComplainIf(settings.chunk != 900.0 || settings.memory != 5000.0, "a copy has other settings"));
  PetscCall(MatDestroy(&B));
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(VecDuplicate(y, &z));
  PetscCall(VecSet(x, 1.0));
  for (PetscInt pass = 0; pass < 5; pass++) PetscCall(MatMult(A, x, y));
  PetscCall(CheckView(A, "passes:", 5.0));
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  before = stream->counts;
  if (ranks > 1) PetscCall(MatStreamGetOutside_Private(A, x, &off, &scatter, &ghosts));
  if (ranks > 1) PetscCall(PetscObjectGetId((PetscObject)scatter, &ids[0]));
  PetscCall(MatMult(A, x, y));
  after = stream->counts;
  PetscCall(MatSetFromOptions(A)); /* to the present values */
  PetscCall(MatMult(A, x, y));
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  PetscCall(ComplainIf(stream->counts.passes != after.passes + 1, "a matrix is packed again for options that it has already"));
  PetscCall(ComplainIf(stream->counts.sends - after.sends != after.sends - before.sends,
                       "chunks are sent again for options that the matrix has already"));
  if (ranks > 1) PetscCall(MatStreamGetOutside_Private(A, x, &off, &scatter, &ghosts));
  if (ranks > 1) PetscCall(PetscObjectGetId((PetscObject)scatter, &ids[1]));
  PetscCall(ComplainIf(ids[0] != ids[1], "what other processes send is found again for options that the matrix has already"));
  if (ranks > 1 && !gpu) { /* products on the host, while the diagonal block still has its device */
    PetscCall(IDRSStreamMatSetDevice(A, NULL, NULL));
    PetscCall(MatMultAdd(A, x, y, y));
    PetscCall(MatMult(A, x, z));
    PetscCall(VecScale(z, 2.0));
    PetscCall(CheckClose("without a device", 100, y, z));
  }
  PetscCall(PetscOptionsInsertString(NULL, "-s_mat_stream_memory 6000"));
  PetscCall(MatSetFromOptions(A));
  if (ranks == 1) { /* then the memory is too small */
    PetscCall(MatMult(A, x, y));
    PetscCall(ComplainIf(stream->limit != 6000, "%g of 6000 bytes", (double)stream->limit));
    PetscCall(PetscOptionsInsertString(NULL, "-s_mat_stream_memory 900"));
    PetscCall(MatSetFromOptions(A));
    CheckRefused(MatMult(A, x, y), "-mat_stream_memory", "at least");
  }
  PetscCall(VecDestroy(&z));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(StreamDestroy("settings", &A, &device));
  PetscCall(Verdict("settings"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Each operation of the device fails once, on all processes or on the last one only. Afterwards the product is right, and
   everything can be destroyed. The event of a process with an error stays open, so that this process does not wait at later events:
   hence -log_sync 0. PETSc with debugging makes sums of its own on the other processes even then, so errors on one process are
   omitted
*/
static PetscErrorCode TestErrors(void)
{
  PetscMPIInt rank, ranks;
  PetscInt    total = 0;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  for (PetscInt adds = 0; adds < 2; adds++) {
    PetscInt happened = 1;

    /* odd numbers: on the last process only */
    for (PetscInt failure = 0; happened && !gpu; failure += PetscDefined(USE_DEBUG) ? 2 : 1) {
      PetscErrorCode ierr;
      Mat            A, B;
      Vec            x, y;
      Device         device;
      char           what[64];

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s after operation %" PetscInt_FMT " has failed",
                              adds ? "MatMultAdd()" : "MatMult()", failure));
      PetscCall(StreamFill(&device, 5000.0, 3, &A));
      PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &B));
      PetscCall(MatCreateVecs(A, &x, &y));
      PetscCall(VecSet(x, 1.0));
      PetscCall(VecSet(y, 1.0));
      device.failure = failure % 2 && rank < ranks - 1 ? -1 : failure / 2;
      PetscCall(Listen());
      ierr = adds ? MatMultAdd(A, x, y, y) : MatMult(A, x, y);
      PetscCall(Heard());
      happened = device.failure < 0 && (!(failure % 2) || rank == ranks - 1) ? 1 : 0;
      PetscCall(ComplainIf(happened ? ierr != PETSC_ERR_GPU : ierr != PETSC_SUCCESS, "%s: error %d", what, (int)ierr));
      device.failure = -1;
      PetscCall(Unlock(x));
      PetscCall(Unlock(y));
      PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
      PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
      PetscCall(CheckSame(what, A, B, &device));
      PetscCall(VecDestroy(&x));
      PetscCall(VecDestroy(&y));
      PetscCall(MatDestroy(&B));
      PetscCall(StreamDestroy(what, &A, &device));
      IDRSCallAllreduce(MPI_IN_PLACE, &happened, 1, MPIU_INT, MPI_MAX, PETSC_COMM_WORLD);
      total += happened;
    }
  }
  PetscCall(ComplainIf(!gpu && total < 20, "only %" PetscInt_FMT " failures", total));
  PetscCall(Verdict("errors of the device"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Without -mat_stream_memory, processes that share a device have equal parts of half of the memory that is free before the first
   one allocates
*/
static PetscErrorCode TestShare(void)
{
  Mat         A;
  Device      device;
  Vec         x, y;
  IDRSStream  stream;
  PetscMPIInt ranks, rank;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(StreamFill(&device, 0.0, 3, &A));
  device.available = 30000 - 1000 * (size_t)rank;
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(VecSet(x, 1.0));
  for (PetscInt product = 0; product < 2; product++) {
    PetscCall(MatMult(A, x, y));
    device.available = 7; /* other processes use the rest */
    PetscCall(IDRSStreamMatGetStream(A, &stream));
    PetscCall(ComplainIf(!gpu && stream->limit != (30000 - 1000 * (size_t)(ranks - 1)) / (size_t)ranks / 2,
                         "process %d of %d takes %g bytes", rank, ranks, (double)stream->limit));
  }
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(StreamDestroy("in the end", &A, &device));
  PetscCall(Verdict("processes on one device"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Vectors bound to the CPU on one process, for example by -vec_bind_below, and then the matrix on all processes: these processes
   compute on the host, and no process waits
*/
static PetscErrorCode TestBound(void)
{
  Mat         A, B;
  Device      device;
  Vec         x, y, z;
  PetscInt64  passes, before = 0;
  PetscMPIInt rank, size;

  PetscFunctionBeginUser;
  PetscCall(RankAndSize(&rank, &size));
  PetscCall(StreamFill(&device, 5000.0, 3, &A));
  PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &B));
  for (PetscInt bound = 0; bound < 4; bound++) { /* some vectors, the matrix, both, none */
    const PetscBool vectors = (PetscBool)(bound % 2 == 0 && (rank == 0 || ComparesProcesses(size))),
                    matrix  = (PetscBool)(bound == 1 || bound == 2);

    PetscCall(MatCreateVecs(A, &x, &y));
    PetscCall(VecDuplicate(y, &z));
    PetscCall(VecSetGeneral(x, 0.4));
    PetscCall(VecBindToCPU(x, vectors));
    PetscCall(VecBindToCPU(y, vectors));
    PetscCall(MatBindToCPU(A, matrix));
    PetscCall(MatMult(A, x, y));
    PetscCall(MatMultAdd(A, x, y, y));
    PetscCall(MatMult(B, x, z));
    PetscCall(VecScale(z, 2.0));
    PetscCall(CheckClose(matrix ? "matrix bound" : "vectors bound", 100, y, z));
    PetscCall(GetPasses(A, &passes));
    if (gpu)
      PetscCall(ComplainIf(passes - before != (vectors || matrix ? 0 : 2), "%s bound: %d passes", matrix ? "matrix" : "vectors",
                           (int)(passes - before)));
    before = passes;
    PetscCall(VecDestroy(&z));
    PetscCall(VecDestroy(&y));
    PetscCall(VecDestroy(&x));
  }
  PetscCall(MatDestroy(&B));
  PetscCall(StreamDestroy("in the end", &A, &device));
  PetscCall(Verdict("bound to the CPU"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with another solver during a solve */
static PetscErrorCode MonitorSolve(KSP ksp, PetscInt it, PetscReal rnorm, void *ctx)
{
  KSP other = (KSP)ctx;
  Vec b, x;

  PetscFunctionBeginUser;
  PetscCall(KSPGetRhs(ksp, &b));
  PetscCall(VecDuplicate(b, &x));
  if (it % 3 == 1) PetscCall(KSPSolve(other, b, x));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Two matrices in turn, vectors on the host, two solves at a time, and a million steps */
static PetscErrorCode TestTogether(void)
{
  const PetscInt k = gpu ? 100000 : 1000000; /* a launch takes microseconds */
  Mat            A[2], B[2], T;
  Device         devices[3];
  Vec            x, y, z, host[2];
  KSP            ksp[2];
  PC             pc;
  PetscReal      norm, size;
  PetscScalar   *ones, *zeros;
  PetscMPIInt    ranks;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  for (PetscInt m = 0; m < 2; m++) {
    PetscCall(StreamFill(&devices[m], m ? 1e6 : 5000.0, m + 2, &A[m]));
    PetscCall(MatConvert(A[m], MATAIJ, MAT_INITIAL_MATRIX, &B[m]));
  }
  PetscCall(MatCreateVecs(A[0], &x, &y));
  PetscCall(VecDuplicate(y, &z));
  PetscCall(VecSetGeneral(x, 0.6));
  PetscCall(MatCreateVecs(B[0], &host[0], &host[1]));
  for (PetscInt turn = 0; turn < 6; turn++) {
    const PetscInt m = turn % 2;

    if (turn < 4) PetscCall(MatMult(A[m], x, y));
    else {
      PetscCall(VecCopy(x, host[0]));
      PetscCall(MatMult(A[m], host[0], host[1]));
      PetscCall(VecCopy(host[1], y));
    }
    PetscCall(MatMult(B[m], x, z));
    PetscCall(CheckClose(turn < 4 ? "two matrices in turn" : "vectors on the host", 100, y, z));
  }
  for (PetscInt s = 0; s < 2; s++) {
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp[s]));
    PetscCall(KSPSetOperators(ksp[s], A[0], A[0]));
    PetscCall(KSPSetType(ksp[s], s ? KSPGMRES : KSPIDRS));
    PetscCall(KSPSetTolerances(ksp[s], PetscSqrtReal(PETSC_MACHINE_EPSILON), 0.0, PETSC_DEFAULT, 200));
    PetscCall(KSPGetPC(ksp[s], &pc));
    PetscCall(PCSetType(pc, s ? PCPOLY : PCNONE));
  }
  PetscCall(KSPMonitorSet(ksp[0], MonitorSolve, ksp[1], NULL));
  PetscCall(KSPSolve(ksp[0], x, y));
  PetscCall(ResidualNorm(B[0], x, y, &norm, &size));
  PetscCall(ComplainIf(!(norm <= 1.01 * PetscSqrtReal(PETSC_MACHINE_EPSILON) * size),
                       "with another solve in flight the residual is %g of %g", (double)norm, (double)size));
  for (PetscInt s = 0; s < 2; s++) PetscCall(KSPDestroy(&ksp[s]));
  if (ranks == 1) { /* powers of the identity */
    PetscCall(StreamCreate(&devices[2], 5000.0, &T));
    PetscCall(MatSetUp(T));
    PetscCall(Fill(T, 0));
    PetscCall(MatZeroEntries(T));
    PetscCall(MatShift(T, 1.0));
    PetscCall(PetscMalloc2(k + 1, &ones, k + 1, &zeros));
    for (PetscInt j = 0; j <= k; j++) {
      ones[j]  = 1.0;
      zeros[j] = 0.0;
    }
    PetscCall(MatPowersSum(T, NULL, x, k, ones, zeros, zeros, zeros, y, z));
    PetscCall(CheckClose("a power of the identity", 0, z, x));
    PetscCall(PetscFree2(ones, zeros));
    PetscCall(StreamDestroy("a power of the identity", &T, &devices[2]));
  }
  for (PetscInt m = 0; m < 2; m++) {
    PetscCall(VecDestroy(&host[m]));
    PetscCall(MatDestroy(&B[m]));
    PetscCall(StreamDestroy("together", &A[m], &devices[m]));
  }
  PetscCall(VecDestroy(&z));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(Verdict("together"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define STEPS 5

/*
   With ordered chunks products and matrix powers have the same bits, with memory for one step, for a part of the steps and for all;
   on several processes ordering is an error
*/
static PetscErrorCode TestOrdering(void)
{
  const PetscScalar gamma[STEPS] = {0.1, 0.2, 0.1, 0.2, 0.1}, theta[STEPS] = {0.5, 0.1, 0.3, 0.2, 0.4},
                    mu[STEPS] = {0.0, 0.3, 0.0, 0.2, 0.1}, c[STEPS + 1] = {1.0, 0.5, -0.5, 0.25, 0.0, 2.0};
  const PetscReal memories[] = {2300.0 + 2.0 * (PetscReal)IDRSStreamAlign(N * sizeof(PetscScalar)), 5000.0, 20000.0};
  Vec             x, d, v[2][STEPS + 4]; /* A x, v_1 ..., y, y and A y */
  IDRSPowers      powers;
  Device          device;
  PetscErrorCode  ierr;
  PetscMPIInt     ranks;
  PetscBool       equal;
  Mat             A;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  for (size_t m = 0; m < PETSC_STATIC_ARRAY_LENGTH(memories); m++) {
    PetscCall(StreamFill(&device, memories[m], 3, &A));
    PetscCall(MatCreateVecs(A, &x, &d));
    PetscCall(VecSetGeneral(x, 0.7));
    PetscCall(VecSetGeneral(d, 0.2));
    powers = (IDRSPowers){.A = A, .inverse = d, .k = STEPS, .gamma = gamma, .theta = theta, .mu = mu};
    for (PetscInt i = 0; i < 2 * (STEPS + 4); i++) PetscCall(VecDuplicate(x, &v[i % 2][i / 2]));
    for (PetscInt ordered = 0; ordered < 2; ordered++) {
      PetscCall(PetscOptionsSetValue(NULL, "-s_mat_stream_ordering", ordered ? "rcm" : "natural"));
      PetscCall(MatSetFromOptions(A));
      PetscCall(Listen());
      ierr = MatMult(A, x, v[ordered][0]);
      PetscCall(Heard());
      if (ordered && ranks > 1) {
        PetscCall(CheckError(ierr, "several processes", "-mat_stream_ordering", "rcm"));
        PetscCall(Unlock(x));
        PetscCall(Unlock(v[1][0]));
        PetscCall(PetscOptionsSetValue(NULL, "-s_mat_stream_ordering", "natural"));
        PetscCall(MatSetFromOptions(A));
        PetscCall(MatMult(A, x, v[1][0]));
      } else PetscCall(ComplainIf(ierr, "error code %d, \"%s\"", (int)ierr, message));
      PetscCall(MatPowersMult(A, d, x, STEPS, gamma, theta, mu, v[ordered] + 1));
      PetscCall(MatPowersSum(A, d, x, STEPS, gamma, theta, mu, c, v[ordered][STEPS + 1], NULL));
      if (ranks == 1)
        PetscCall(
          (*IDRSPowers_Stream.sum)(&powers, x, &(IDRSPowersSum){.c = c, .y = v[ordered][STEPS + 2], .z = v[ordered][STEPS + 3]}));
    }
    for (PetscInt i = 0; i < STEPS + 4; i++) {
      PetscCall(VecEqual(v[0][i], v[1][i], &equal));
      PetscCall(ComplainIf(!equal, "result %" PetscInt_FMT " has other bits, in %g bytes of memory", i, (double)memories[m]));
    }
    for (PetscInt i = 0; i < 2 * (STEPS + 4); i++) PetscCall(VecDestroy(&v[i % 2][i / 2]));
    PetscCall(VecDestroy(&d));
    PetscCall(VecDestroy(&x));
    PetscCall(StreamDestroy("another order", &A, &device));
    PetscCall(PetscOptionsClearValue(NULL, "-s_mat_stream_ordering"));
  }
  PetscCall(Verdict("another order of chunks"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Returns the free bytes of the GPU. The library, but not the program, is linked to the CUDA runtime */
static PetscErrorCode FreeMemory(PetscReal *bytes)
{
  int (*runtime)(size_t *, size_t *);
  size_t available, total;

  PetscFunctionBeginUser;
  *(void **)&runtime = dlsym(RTLD_DEFAULT, "cudaMemGetInfo");
  PetscCheck(runtime && !(*runtime)(&available, &total), PETSC_COMM_SELF, PETSC_ERR_GPU, "cudaMemGetInfo()");
  *bytes = (PetscReal)available;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Solves with long vectors; taken is the GPU memory in use while the solver exists */
static PetscErrorCode SolveMemory(PetscInt s, const char pctype[], const char options[], PetscReal *taken)
{
  const PetscInt m      = 64;
  PetscReal      before = 0.0, after = 0.0;
  Mat            A;
  Vec            x, b;
  KSP            ksp;
  PC             pc;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsInsertString(NULL, options));
  PetscCall(FreeMemory(&before));
  PetscCall(MatCreate(PETSC_COMM_SELF, &A));
  PetscCall(MatSetOptionsPrefix(A, "m_"));
  PetscCall(MatSetSizes(A, m * m * m, m * m * m, m * m * m, m * m * m));
  PetscCall(MatSetType(A, MATAIJSTREAM));
  PetscCall(MatSeqAIJSetPreallocation(A, 7, NULL));
  PetscCall(MatSetFromOptions(A));
  for (PetscInt row = 0; row < m * m * m; row++) {
    const PetscInt neighbours[] = {1, m, m * m};

    PetscCall(MatSetValue(A, row, row, 6.5, INSERT_VALUES));
    for (PetscInt d = 0; d < 3; d++) {
      if (row / neighbours[d] % m) PetscCall(MatSetValue(A, row, row - neighbours[d], -1.2, INSERT_VALUES));
      if (row / neighbours[d] % m < m - 1) PetscCall(MatSetValue(A, row, row + neighbours[d], -0.8, INSERT_VALUES));
    }
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSet(b, 1.0));
  PetscCall(KSPCreate(PETSC_COMM_SELF, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetType(ksp, KSPIDRS));
  PetscCall(KSPIDRSSetShadowSize(ksp, s));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, pctype));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(FreeMemory(&after));
  *taken = before - after;
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A product uses at most -mat_stream_memory. On a GPU a solve uses this, 8(2s + 9) bytes a row, and at most three vectors more */
static PetscErrorCode TestMemory(void)
{
  const PetscInt  numbers[] = {1, 4}, n = 64 * 64 * 64;
  const PetscReal small = 6e6, vector = (PetscReal)n * (PetscReal)sizeof(PetscScalar);
  const char     *pctypes[] = {PCJACOBI, PCPOLY};
  PetscReal       taken     = 0.0;
  PetscMPIInt     ranks;
  Mat             A;
  Vec             x, y;
  Device          device;
  IDRSStream      stream;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  PetscCall(StreamFill(&device, 5000.0, 6, &A));
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(VecSet(x, 1.0));
  PetscCall(MatMult(A, x, y));
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  PetscCall(ComplainIf(IDRSStreamLayoutBytes(&stream->layout) > 5000 || device.most > 5000, "%g bytes of 5000",
                       (double)IDRSStreamLayoutBytes(&stream->layout)));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscCall(StreamDestroy("memory", &A, &device));
  for (PetscInt first = 1; first >= 0 && gpu && ranks == 1; first--) { /* the first time CUDA libraries allocate memory for good */
    for (size_t is = 0; is < PETSC_STATIC_ARRAY_LENGTH(numbers); is++) {
      for (size_t ip = 0; ip < PETSC_STATIC_ARRAY_LENGTH(pctypes); ip++) {
        PetscCall(SolveMemory(numbers[is], pctypes[ip], "-m_mat_stream_chunk 5e5 -m_mat_stream_memory 6e6", &taken));
        /* GPU memory is counted in pieces of 2 MB */
        PetscCall(ComplainIf(!first && !(taken <= (PetscReal)(2 * numbers[is] + 12) * vector + small + 4e6),
                             "s = %" PetscInt_FMT ", %s: %g bytes of the GPU", numbers[is], pctypes[ip], (double)taken));
      }
    }
  }
  PetscCall(Verdict("memory of the GPU"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPOLY on a streamed matrix: the result is that on a MATAIJ, and on one process an application is one pass */
static PetscErrorCode TestPolynomial(void)
{
  const PetscReal re[] = {0.4, 0.9, 0.9, 1.3, 1.6}, im[] = {0.0, 0.3, -0.3, 0.0, 0.0};
  Mat             M[2];
  Device          device;
  Vec             x, y[2];
  PC              pc[2];
  PetscReal       least = 0.0;
  PetscMPIInt     ranks;
  PetscInt64      passes, before;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  PetscCall(StreamFill(&device, 100000.0, 3, &M[0]));
  PetscCall(MatConvert(M[0], MATAIJ, MAT_INITIAL_MATRIX, &M[1]));
  PetscCall(MatCreateVecs(M[0], &x, &y[0]));
  PetscCall(VecDuplicate(x, &y[1]));
  PetscCall(VecSetGeneral(x, 0.6));
  for (PetscInt k = 0; k < 2; k++) {
    PetscCall(PCCreate(PETSC_COMM_WORLD, &pc[k]));
    PetscCall(PCSetType(pc[k], PCPOLY));
    PetscCall(PCSetOperators(pc[k], M[k], M[k]));
    PetscCall(PCPolySetPrecision_Private(pc[k], PC_POLY_PRECISION_DOUBLE));
    PetscCall(PCPolySetRoots(pc[k], 5, re, im));
    PetscCall(PCSetUp(pc[k]));
    PetscCall(GetPasses(M[0], &before));
    PetscCall(PCApply(pc[k], x, y[k]));
    PetscCall(GetPasses(M[0], &passes));
    if (ranks == 1 && !gpu && !k)
      PetscCall(ComplainIf(passes - before != 1, "%d passes in an application", (int)(passes - before)));
  }
  for (PetscInt k = 0; k < 2; k++) { /* roots from a Krylov space */
    PetscInt         degree;
    const PetscReal *roots;

    PetscCall(PCPolySetRootsType_Private(pc[k], PC_POLY_ROOTS_GMRES));
    PetscCall(PCSetUp(pc[k]));
    PetscCall(PCPolyGetRoots(pc[k], &degree, &roots, NULL));
    PetscCall(ComplainIf(degree != 8, "%s: degree %" PetscInt_FMT, k ? "aij" : "aijstream", degree));
    if (!k) least = roots[0];
    else
      PetscCall(
        ComplainIf(!(PetscAbsReal(roots[0] - least) <= 1e-3), "the first root differs: %g, %g", (double)least, (double)roots[0]));
  }
  PetscCall(CheckClose("the preconditioner", 1000, y[0], y[1]));
  for (PetscInt k = 0; k < 2; k++) {
    PetscCall(PCDestroy(&pc[k]));
    PetscCall(VecDestroy(&y[k]));
    PetscCall(MatDestroy(&M[k]));
  }
  PetscCall(VecDestroy(&x));
  PetscCall(DeviceDestroy("the preconditioner", &device));
  PetscCall(Verdict("a polynomial preconditioner"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that each iteration of a solve with PCPOLY adds one pass, or two with bcgs. A solve without the window has the same
   solution
*/
static PetscErrorCode CheckPasses(const char type[], PetscInt last, PCSide side, Mat A, Mat B, Vec b)
{
  const PetscInt its[] = {1, last};
  PetscInt64     passes[3], before, after;
  Vec            x, y;
  KSP            ksp;
  PC             pc;
  PetscBool      same;
  char           what[64];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s from the %s", type, side == PC_LEFT ? "left" : "right"));
  PetscCall(VecDuplicate(b, &x));
  PetscCall(VecDuplicate(b, &y));
  for (PetscInt run = 0; run < 3; run++) {
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
    PetscCall(KSPSetOperators(ksp, run < 2 ? A : B, run < 2 ? A : B));
    PetscCall(KSPSetType(ksp, type));
    PetscCall(KSPSetPCSide(ksp, side));
    PetscCall(KSPIDRSSetShadowSize(ksp, 2)); /* the last two of five iterations come after the start */
    PetscCall(KSPIDRSSetUpdateTolerance(ksp, 0.0));
    PetscCall(KSPSetNormType(ksp, side == PC_LEFT ? KSP_NORM_PRECONDITIONED : KSP_NORM_UNPRECONDITIONED));
    PetscCall(KSPSetTolerances(ksp, 1e-30, 1e-30, PETSC_DEFAULT, its[PetscMin(run, 1)]));
    PetscCall(KSPGetPC(ksp, &pc));
    PetscCall(PCSetType(pc, PCPOLY));
    PetscCall(PCPolySetDegree(pc, 3));
    PetscCall(PCPolySetRootsType_Private(pc, PC_POLY_ROOTS_NEUMANN));
    PetscCall(PCPolySetPrecision_Private(pc, PC_POLY_PRECISION_DOUBLE));
    PetscCall(KSPSetUp(ksp));
    PetscCall(GetPasses(A, &before));
    PetscCall(KSPSolve(ksp, b, run < 2 ? x : y));
    PetscCall(GetPasses(A, &after));
    passes[run] = after - before;
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(PetscStrcmp(type, KSPBCGS, &same)); /* two products in each iteration */
  PetscCall(ComplainIf(passes[1] - passes[0] != (its[1] - its[0]) * (same ? 2 : 1), "%s: %d passes in %" PetscInt_FMT " iterations",
                       what, (int)(passes[1] - passes[0]), its[1] - its[0]));
  PetscCall(CheckClose(what, 1.0 / PetscSqrtReal(PETSC_MACHINE_EPSILON), x, y));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Sets the memory of the GPU so that all chunks stay there, and a pass has `levels` levels */
static PetscErrorCode SetWindowMemory(Mat A, PetscInt levels)
{
  Vec        x, y;
  size_t     bytes;
  char       options[64];
  IDRSStream stream;

  PetscFunctionBeginUser;
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(VecSet(x, 1.0));
  PetscCall(MatMult(A, x, y));
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  bytes = stream->pattern->bytes + (size_t)levels * IDRSStreamAlign(N * sizeof(PetscScalar));
  PetscCall(PetscSNPrintf(options, sizeof(options), "-s_mat_stream_memory %g", (double)bytes));
  PetscCall(PetscOptionsInsertString(NULL, options));
  PetscCall(MatSetFromOptions(A));
  PetscCall(VecDestroy(&y));
  PetscCall(VecDestroy(&x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPOLY in solvers, on one process: one pass computes all products of an iteration, including the product with the operator */
static PetscErrorCode TestPasses(void)
{
  Mat         A, B;
  Device      device;
  Vec         b;
  PetscMPIInt ranks;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  if (ranks > 1) {
    PetscCall(Skip("on several processes each product is a pass"));
    PetscCall(Verdict("passes of solvers"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(StreamFill(&device, 100000.0, 2, &A));
  PetscCall(SetWindowMemory(A, 3));
  PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &B));
  PetscCall(MatCreateVecs(A, NULL, &b));
  PetscCall(VecSetGeneral(b, 0.8));
  for (PetscInt left = 0; left < 2; left++) {
    PetscCall(CheckPasses(KSPIDRS, 5, left ? PC_LEFT : PC_RIGHT, A, B, b));
    PetscCall(CheckPasses(KSPGMRES, 5, left ? PC_LEFT : PC_RIGHT, A, B, b));
    PetscCall(CheckPasses(KSPBCGS, 3, left ? PC_LEFT : PC_RIGHT, A, B, b));
  }
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&B));
  PetscCall(StreamDestroy("in the end", &A, &device));
  PetscCall(Verdict("passes of solvers"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

int main(int argc, char **argv)
{
  char type[64] = "";

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(KSPIDRSRegister());
  PetscCall(PetscOptionsGetString(NULL, NULL, "-vec_type", type, sizeof(type), NULL));
  PetscCall(PetscStrcmp(type, "cuda", &gpu));
  PetscCall(TestAIJ());
  PetscCall(TestInPlace());
  PetscCall(TestChanges());
  PetscCall(TestSettings());
  PetscCall(TestErrors());
  PetscCall(TestShare());
  PetscCall(TestBound());
  PetscCall(TestTogether());
  PetscCall(TestOrdering());
  PetscCall(TestMemory());
  PetscCall(TestPolynomial());
  PetscCall(TestPasses());
  PetscCall(PetscFinalize());
  return 0;
}

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}
    args: -log_sync 0

TEST*/
