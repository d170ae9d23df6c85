static char help[] = "MATAIJSTREAM: a MATAIJ whose products are computed on an emulated device. After each operation that\n\
changes a matrix the product equals the product of a MATAIJ, and only memory that the matrix still has is pinned.\n\
  -vec_type cuda - on a GPU instead\n\n";

#include "systems.h"
#include "streamdevice.h"

#define N 60

static PetscBool gpu;

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
  PetscCall(MatAssemble(A));
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
  PetscMPIInt        ranks;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  PetscCall(PetscObjectTypeCompare((PetscObject)A, ranks == 1 ? MATSEQAIJSTREAM : MATMPIAIJSTREAM, &stream));
  PetscCall(ComplainIf(!stream, "%s: the type is %s", what, ((PetscObject)A)->type_name));
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
  PetscCall(DuplicateAll(y, &z, &w));
  PetscCall(VecSetGeneral(x, 0.3));
  PetscCall(VecSetGeneral(w, 0.7));
  PetscCall(MatMult(A, x, y));
  PetscCall(IDRSStreamMatGetStream(A, &kept));
  PetscCall(ComplainIf(kept->limit != 5000 && kept->limit != 1000000, "%s: the settings are lost", what));
  PetscCall(VecAXPY(y, 1.0, w));
  PetscCall(MatMultAdd(B, x, w, z));
  PetscCall(CheckClose(what, y, z, 100 * PETSC_MACHINE_EPSILON));
  PetscCall(MatMultAdd(A, x, w, z)); /* into another vector, and in place */
  PetscCall(MatMultAdd(A, x, w, w));
  PetscCall(CheckClose(what, w, z, 0.0));
  PetscCall(MatMultTranspose(A, x, y));
  PetscCall(MatMultTranspose(B, x, z));
  PetscCall(CheckClose(what, y, z, 100 * PETSC_MACHINE_EPSILON));
  PetscCall(ComplainIf(device->wrong, "%s: %" INT " calls of the device are wrong", what, device->wrong));
  device->wrong = 0;
  PetscCall(DestroyAll(&x, &y, &z, &w));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Operations that change a matrix: its values, its nonzeros, its arrays */
typedef enum {
  SAME_VALUES,
  SET_VALUES,
  SET_SORTED,
  SCALE,
  ZERO_ROWS,
  AXPY,
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
                                      "MatZeroRows()",
                                      "MatAXPY()",
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
  if (change == ZERO_ROWS) PetscCall(MatZeroRows(A, 1, &row, 2.0, NULL, NULL));
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
  case AXPY:
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
  if (change == SET_VALUES || change == SET_SORTED || change == NEW_NONZEROS) PetscCall(MatAssemble(A));
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
  const char *const packages[] = {PCLU, PCBJIDRS};
  char              type[64]   = "";
  Mat               A, B, C;
  Vec               x, b;
  PetscBool         same;
  PetscReal         norm, size;
  IS                rows;
  MatFactorInfo     info;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetString(NULL, NULL, "-vec_type", type, sizeof(type), NULL));
  PetscCall(PetscStrcmp(type, VECCUDA, &gpu));
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
  PetscCall(MatConvert(A, MATBAIJ, MAT_INITIAL_MATRIX, &C));
  PetscCall(MatScale(A, 0.25));
  PetscCall(MatConvert(A, MATBAIJ, MAT_REUSE_MATRIX, &C));
  PetscCall(CheckEqual("converted to a MATBAIJ that exists", C, A, MATSEQBAIJ, MATMPIBAIJ));
  PetscCall(MatScale(C, 4.0));
  PetscCall(MatConvert(C, MATAIJSTREAM, MAT_REUSE_MATRIX, &A));
  PetscCall(MatConvert(C, MATAIJSTREAM, MAT_INPLACE_MATRIX, &C));
  PetscCall(CheckEqual("converted from MATBAIJ", A, C, MATSEQAIJSTREAM, MATMPIAIJSTREAM));
  PetscCall(MatDestroy(&C));
  PetscCall(MatScale(B, 0.5));
  PetscCall(MatMatMult(A, A, MAT_INITIAL_MATRIX, PETSC_DEFAULT, &C));
  PetscCall(MatMatMultEqual(B, B, C, 3, &same));
  PetscCall(ComplainIf(!same, "MatMatMult(): another matrix"));
  PetscCall(MatDestroy(&C));
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
  PetscCall(DestroyAll(&x, &b, &A, &B));
  /* a matrix that is factored in place has other arrays, and is a MATSEQAIJ */
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
  PetscCall(DestroyAll(&rows, &x, &b, &A, &B));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Settings are copied, options with the present values change nothing, and products use at most -mat_stream_memory */
static PetscErrorCode TestSettings(void)
{
  Mat              A, B;
  Device           device;
  Vec              x, y, z;
  PetscMPIInt      ranks;
  PetscReal        passes;
  PetscInt         lines;
  IDRSStream       stream;
  IDRSStreamCounts before, after;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  PetscCall(StreamFill(&device, 5000.0, 3, &A));
  PetscCall(MatCreateVecs(A, &x, &y));
  PetscCall(VecDuplicate(y, &z));
  PetscCall(VecSet(x, 1.0));
  for (PetscInt pass = 0; pass < 5; pass++) PetscCall(MatMult(A, x, y));
  PetscCall(DetailNumbers((PetscObject)A, "passes:", 1, &passes, &lines));
  PetscCall(ComplainIf(lines != 1 || passes != 5.0, "the view has %g passes in %" INT " lines", (double)passes, lines));
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  PetscCall(ComplainIf(IDRSStreamLayoutBytes(&stream->layout) > 5000 || device.most > 5000, "%g bytes of 5000",
                       (double)IDRSStreamLayoutBytes(&stream->layout)));
  before = stream->counts;
  PetscCall(MatMult(A, x, y));
  after = stream->counts;
  PetscCall(MatSetFromOptions(A)); /* to the present values */
  PetscCall(MatMult(A, x, y));
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  PetscCall(ComplainIf(stream->counts.passes != after.passes + 1, "a matrix is packed again for options that it has already"));
  PetscCall(ComplainIf(stream->counts.sends - after.sends != after.sends - before.sends,
                       "chunks are sent again for options that the matrix has already"));
  if (!gpu) { /* the copy on another device */
    Device other;

    PetscCall(MatDuplicate(A, MAT_COPY_VALUES, &B));
    PetscCall(DeviceCreate(RANDOM, 100000, &other));
    other.waits = PETSC_TRUE;
    PetscCall(IDRSStreamMatSetDevice(B, &deviceops, &other));
    PetscCall(MatMult(B, x, z));
    PetscCall(CheckClose("a copy", z, y, 0.0));
    PetscCall(IDRSStreamMatGetStream(B, &stream));
    PetscCall(ComplainIf(stream->limit != 5000 || stream->pattern->nchunks < 2, "a copy has other settings"));
    PetscCall(StreamDestroy("a copy", &B, &other));
  }
  if (ranks > 1 && !gpu) { /* products on the host, while the diagonal block still has its device */
    PetscCall(IDRSStreamMatSetDevice(A, NULL, NULL));
    PetscCall(MatMultAdd(A, x, y, y));
    PetscCall(MatMult(A, x, z));
    PetscCall(VecScale(z, 2.0));
    PetscCall(CheckClose("without a device", y, z, 100 * PETSC_MACHINE_EPSILON));
  }
  if (ranks == 1) { /* then the memory is too small */
    PetscCall(PetscOptionsInsertString(NULL, "-s_mat_stream_memory 6000"));
    PetscCall(MatSetFromOptions(A));
    PetscCall(MatMult(A, x, y));
    PetscCall(IDRSStreamMatGetStream(A, &stream));
    PetscCall(ComplainIf(stream->limit != 6000, "%g of 6000 bytes", (double)stream->limit));
    PetscCall(PetscOptionsInsertString(NULL, "-s_mat_stream_memory 900"));
    PetscCall(MatSetFromOptions(A));
    CheckRefused(MatMult(A, x, y), "-mat_stream_memory", "at least");
  }
  PetscCall(DestroyAll(&x, &y, &z));
  PetscCall(StreamDestroy("settings", &A, &device));
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
  PetscCall(RankAndSize(&rank, &ranks));
  /* on several processes MatPowersSum() waits for the process with an error */
  for (PetscInt powers = 0; powers < (ranks == 1 ? 2 : 1); powers++) {
    const PetscScalar ones[] = {1.0, 1.0, 1.0}, zeros[] = {0.0, 0.0, 0.0};
    PetscInt          happened = 1;

    /* odd numbers: on the last process only */
    for (PetscInt failure = 0; happened && !gpu; failure += PetscDefined(USE_DEBUG) ? 2 : 1) {
      PetscErrorCode ierr;
      Mat            A, B;
      Vec            x, y;
      Device         device;
      char           what[64];

      PetscCall(PetscSNPrintf(what, sizeof(what), "%s after operation %" INT " has failed",
                              powers ? "MatPowersSum()" : "MatMultAdd()", failure));
      PetscCall(StreamFill(&device, 5000.0, 3, &A));
      PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &B));
      PetscCall(MatCreateVecs(A, &x, &y));
      PetscCall(VecSet(x, 1.0));
      PetscCall(VecSet(y, 1.0));
      device.failure = failure % 2 && rank < ranks - 1 ? -1 : failure / 2;
      PetscCall(Listen());
      ierr = powers ? MatPowersSum(A, NULL, x, 2, ones, zeros, zeros, ones, y, NULL) : MatMultAdd(A, x, y, y);
      PetscCall(Heard());
      happened = device.failure < 0 && (!(failure % 2) || rank == ranks - 1) ? 1 : 0;
      PetscCall(ComplainIf(happened ? ierr != PETSC_ERR_GPU : ierr != PETSC_SUCCESS, "%s: error %d", what, (int)ierr));
      device.failure = -1;
      PetscCall(Unlock(x));
      PetscCall(Unlock(y));
      PetscCall(MatAssemble(A));
      PetscCall(CheckSame(what, A, B, &device));
      PetscCall(DestroyAll(&x, &y, &B));
      PetscCall(StreamDestroy(what, &A, &device));
      IDRSCallAllreduce(MPI_IN_PLACE, &happened, 1, MPIU_INT, MPI_MAX, PETSC_COMM_WORLD);
      total += happened;
    }
  }
  PetscCall(ComplainIf(!gpu && total < (PetscDefined(USE_DEBUG) ? 10 : 20), "only %" INT " failures", total));
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
  PetscCall(RankAndSize(&rank, &ranks));
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
  PetscCall(DestroyAll(&x, &y));
  PetscCall(StreamDestroy("in the end", &A, &device));
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
    PetscCall(CheckClose(matrix ? "matrix bound" : "vectors bound", y, z, 100 * PETSC_MACHINE_EPSILON));
    PetscCall(GetPasses(A, &passes));
    if (gpu)
      PetscCall(ComplainIf(passes - before != (vectors || matrix ? 0 : 2), "%s bound: %d passes", matrix ? "matrix" : "vectors",
                           (int)(passes - before)));
    before = passes;
    PetscCall(DestroyAll(&x, &y, &z));
  }
  PetscCall(MatDestroy(&B));
  PetscCall(StreamDestroy("in the end", &A, &device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Checks that each iteration of a solve with PCPOLY adds so many passes. A solve without the window has the same solution
*/
static PetscErrorCode CheckPasses(const char type[], PetscInt each, PetscInt last, PCSide side, Mat A, Mat B, Vec b)
{
  const PetscInt its[] = {1, last};
  PetscInt64     passes[3], before, after;
  Vec            x, y;
  KSP            ksp;
  PC             pc;
  char           what[64];

  PetscFunctionBeginUser;
  PetscCall(PetscSNPrintf(what, sizeof(what), "%s from the %s", type, side == PC_LEFT ? "left" : "right"));
  PetscCall(DuplicateAll(b, &x, &y));
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
    PetscCall(PCPolySetRoots(pc, 3, (PetscReal[]){1.0, 1.0, 1.0}, NULL));
    PetscCall(PolyOption(pc, "precision", "double"));
    PetscCall(KSPSetUp(ksp));
    PetscCall(GetPasses(A, &before));
    PetscCall(KSPSolve(ksp, b, run < 2 ? x : y));
    PetscCall(GetPasses(A, &after));
    passes[run] = after - before;
    PetscCall(KSPDestroy(&ksp));
  }
  PetscCall(ComplainIf(passes[1] - passes[0] != each * (its[1] - its[0]), "%s: %d passes in %" INT " iterations", what,
                       (int)(passes[1] - passes[0]), its[1] - its[0]));
  PetscCall(CheckClose(what, x, y, PETSC_SQRT_MACHINE_EPSILON));
  PetscCall(DestroyAll(&x, &y));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* PCPOLY in solvers, on one process: one pass computes all products of an iteration, including the product with the operator */
static PetscErrorCode TestPasses(void)
{
  Mat         A, B;
  Device      device;
  Vec         b, y;
  PetscMPIInt ranks;
  IDRSStream  stream;
  char        options[64];

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &ranks));
  if (ranks > 1) {
    PetscCall(Skip("on several processes each product is a pass"));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(StreamFill(&device, 100000.0, 2, &A));
  PetscCall(MatConvert(A, MATAIJ, MAT_INITIAL_MATRIX, &B));
  PetscCall(MatCreateVecs(A, &y, &b));
  PetscCall(VecSetGeneral(b, 0.8));
  PetscCall(MatMult(A, b, y));
  /* memory with which all chunks stay on the GPU, and a pass has 3 levels */
  PetscCall(IDRSStreamMatGetStream(A, &stream));
  PetscCall(PetscSNPrintf(options, sizeof(options), "-s_mat_stream_memory %g",
                          (double)(stream->pattern->bytes + 3 * IDRSStreamAlign(N * sizeof(PetscScalar)))));
  PetscCall(PetscOptionsInsertString(NULL, options));
  PetscCall(MatSetFromOptions(A));
  for (PetscInt left = 0; left < 2; left++) {
    PetscCall(CheckPasses(KSPIDRS, 1, 5, left ? PC_LEFT : PC_RIGHT, A, B, b));
    PetscCall(CheckPasses(KSPGMRES, 1, 5, left ? PC_LEFT : PC_RIGHT, A, B, b));
    PetscCall(CheckPasses(KSPBCGS, 2, 3, left ? PC_LEFT : PC_RIGHT, A, B, b));
  }
  PetscCall(DestroyAll(&b, &y, &B));
  PetscCall(StreamDestroy("in the end", &A, &device));
  PetscFunctionReturn(PETSC_SUCCESS);
}

RUN_TESTS({TestAIJ, "a MATAIJ"}, {TestChanges, "operations that change a matrix"}, {TestSettings, "settings"},
          {TestErrors, "errors of the device"}, {TestShare, "processes on one device"}, {TestBound, "bound to the CPU"},
          {TestPasses, "passes of solvers"})

/*TEST

  test:
    suffix: 1
    nsize: {{1 3}}
    args: -log_sync 0

TEST*/
