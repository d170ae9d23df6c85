/*
   block combine where columns of several sums fit into shared memory, and it pays, see IDRSSlabPays(): see blockcombine.cu for what
   it computes, and for all other sums.

   A block of threads copies a slab, some rows of all columns, to shared memory, makes all sums of the launch on it, and leaves
   there, and in memory, what each has written: each column is read once and written once, whichever sums have it. While one slab is
   worked on the next one is on its way.

   A warp has 16 rows of a slab, and multiplies 16 columns of X by their coefficients at a time with the matrix units, in double
   precision whatever the scalars are: see IDRSMatrixMultiplyAdd(). A lane has rows 2 (lane / 4) and 2 (lane / 4) + 1, of columns
   lane % 4 + 4 l of X, and of columns 2 (lane % 4) + l of each 8 columns of Y. Coefficients come from the cache.
*/
#define IDRS_THREADS 128
#include "idrscudaimpl.cuh"

#define IDRS_SLAB_STAGES 2 /* slabs of a block of threads */
/* blocks of threads on a multiprocessor: with one, of 176 columns, a sum took 211 us on an H100 that took 138 without slabs */
#define IDRS_SLAB_FEWEST 2
#define IDRS_SLAB_MOST   4
#define IDRS_SLAB_ROWS   (16 * IDRS_WARPS)
/* from one column to the next: the same row of four columns is in different banks */
#define IDRS_SLAB_STRIDE (IDRS_SLAB_ROWS + 32 / (int)sizeof(PetscScalar))
#define IDRS_SLAB_BYTES  (IDRS_SLAB_STAGES * IDRS_SLAB_STRIDE * (int)sizeof(PetscScalar)) /* of a column */
/* of a launch, and operands, as arguments of the kernel */
#define IDRS_SLAB_COLUMNS 128
#define IDRS_SLAB_TERMS   1024
#define IDRS_SLAB_SUMS    16
#define IDRS_SLAB_TILE    8 /* columns of Y */

#if !PetscDefined(USE_COMPLEX)

typedef struct {
  const PetscScalar *C;
  int                first, nx, ny, scaled; /* the places of X, then those of Y */
  bool               add;
} IDRSSlabSum;

typedef struct {
  PetscScalar  *column[IDRS_SLAB_COLUMNS];
  unsigned char load[IDRS_SLAB_COLUMNS]; /* places of those columns that are not written before they are read */
  unsigned char place[IDRS_SLAB_TERMS];  /* of an operand, among the columns */
  IDRSSlabSum   sum[IDRS_SLAB_SUMS];
  int           columns, loads, terms, count, diagonal; /* diagonal: its place, if it is needed */
} IDRSSlabChain;

static_assert(sizeof(IDRSSlabChain) <= 3584, "all arguments of a kernel fit into 4096 bytes, as CUDA before 12.1 wants it");
static_assert(IDRS_SLAB_COLUMNS <= 256, "a place is one byte");

/* What all threads look up there */
typedef struct {
  PetscScalar  *column[IDRS_SLAB_COLUMNS];
  unsigned char load[IDRS_SLAB_COLUMNS], place[IDRS_SLAB_TERMS];
} IDRSSlabOperands;

  #define IDRS_SLAB_OTHER ((int)sizeof(IDRSSlabOperands) + 1024) /* shared memory that a block of threads takes besides */

/* Starts to copy rows from `first` on, zeros where there are none. By all threads of a block */
template <int W>
static __device__ __forceinline__ void IDRSSlabCopy(const IDRSSlabOperands &operands, int loads, size_t first, size_t n,
                                                    PetscScalar *slab)
{
  const int lane = (int)threadIdx.x % IDRS_WARP;

  #pragma unroll 4
  for (int c = (int)threadIdx.x / IDRS_WARP; c < loads; c += IDRS_WARPS) {
    const int          place = operands.load[c];
    const PetscScalar *from  = operands.column[place] + first;
    PetscScalar       *to    = slab + place * IDRS_SLAB_STRIDE;

    if (first + IDRS_SLAB_ROWS <= n) {
  #pragma unroll
      for (int l = lane * W; l < IDRS_SLAB_ROWS; l += IDRS_WARP * W) IDRSCopyAsync<sizeof(IDRSPack<W>)>(to + l, from + l);
    } else {
  #pragma unroll 1
      for (int l = lane; l < IDRS_SLAB_ROWS; l += IDRS_WARP) to[l] = first + (size_t)l < n ? from[l] : (PetscScalar)0.0;
    }
  }
}

/* y += X C for so many operands. mine: the two rows of this lane in the first column of the slab; N: tiles of Y */
template <int N>
static __device__ __forceinline__ void IDRSSlabAdd(const IDRSPack<2> *mine, int count, const unsigned char place[],
                                                   const PetscScalar *C, int width, double y[N][4])
{
  const int lane = (int)threadIdx.x % IDRS_WARP;

  #pragma unroll 2
  for (int first = 0; first < count; first += 16) {
    double a[8], b[N][4];

  #pragma unroll
    for (int l = 0; l < 4; l++) {
      const int         i = first + lane % 4 + 4 * l;
      const IDRSPack<2> x = mine[place[min(i, count - 1)] * (IDRS_SLAB_STRIDE / 2)];

  #pragma unroll
      for (int h = 0; h < 2; h++) a[2 * l + h] = (double)PetscRealPart(x.v[h]);
  #pragma unroll
      for (int t = 0; t < N; t++) {
        const int j = t * IDRS_SLAB_TILE + lane / 4;

        b[t][l] = i < count && j < width ? (double)PetscRealPart(C[i * width + j]) : 0.0;
      }
    }
  #pragma unroll
    for (int t = 0; t < N; t++) IDRSMatrixMultiplyAdd(y[t], a, b[t]);
  }
}

/* One sum on the rows of this warp; this lane has rows i and i + 1 */
template <int N, int W>
static __device__ __forceinline__ void IDRSSlabMake(size_t i, size_t n, const IDRSSlabSum &sum, int width, int diagonal,
                                                    const IDRSSlabOperands &operands, IDRSPack<2> *mine)
{
  const int            lane    = (int)threadIdx.x % IDRS_WARP;
  const unsigned char *x       = operands.place + sum.first;
  double               y[N][4] = {};

  if (sum.scaled) {
    const IDRSPack<2> d = mine[diagonal * (IDRS_SLAB_STRIDE / 2)];

    IDRSSlabAdd<N>(mine, sum.scaled, x, sum.C, width, y);
  #pragma unroll
    for (int t = 0; t < N; t++) {
  #pragma unroll
      for (int l = 0; l < 4; l++) y[t][l] *= (double)PetscRealPart(d.v[l / 2]);
    }
  }
  IDRSSlabAdd<N>(mine, sum.nx - sum.scaled, x + sum.scaled, sum.C + sum.scaled * width, width, y);
  __syncwarp(); /* other lanes have taken what is overwritten here */
  #pragma unroll
  for (int t = 0; t < N; t++) {
  #pragma unroll
    for (int l = 0; l < 2; l++) {
      const int j = t * IDRS_SLAB_TILE + lane % 4 * 2 + l;

      if (j < sum.ny) {
        const int    place = x[sum.nx + j];
        IDRSPack<2> *here  = mine + place * (IDRS_SLAB_STRIDE / 2);
        PetscScalar *to    = operands.column[place] + i;
        IDRSPack<2>  pair;

  #pragma unroll
        for (int h = 0; h < 2; h++) pair.v[h] = (PetscReal)((sum.add ? (double)PetscRealPart(here->v[h]) : 0.0) + y[t][2 * h + l]);
        *here = pair;
        if (W > 1 && i + 2 <= n) *reinterpret_cast<IDRSPack<2> *>(to) = pair;
        else {
  #pragma unroll
          for (int h = 0; h < 2; h++) {
            if (i + (size_t)h < n) to[h] = pair.v[h];
          }
        }
      }
    }
  }
  __syncwarp(); /* and find here what the next sums take */
}

/* stopped: where the device does the algebra, and may have stopped, else NULL */
template <int N, int W>
static __global__ void __launch_bounds__(IDRS_THREADS, IDRS_SLAB_MOST)
  IDRSBlockSlabKernel(size_t n, int width, const PetscBool *stopped, const __grid_constant__ IDRSSlabChain chain)
{
  extern __shared__ ulonglong2 memory[];
  __shared__ IDRSSlabOperands  operands;
  const size_t                 stride = (size_t)gridDim.x * IDRS_SLAB_ROWS,
               row                    = (size_t)(threadIdx.x / IDRS_WARP * 16 + threadIdx.x % IDRS_WARP / 4 * 2);
  size_t       first = (size_t)blockIdx.x * IDRS_SLAB_ROWS, next = first;
  PetscScalar *slabs = reinterpret_cast<PetscScalar *>(memory);

  if (stopped && *stopped) return;
  #pragma unroll 1
  for (int l = (int)threadIdx.x; l < chain.columns; l += IDRS_THREADS) operands.column[l] = chain.column[l];
  #pragma unroll 1
  for (int l = (int)threadIdx.x; l < chain.loads; l += IDRS_THREADS) operands.load[l] = chain.load[l];
  #pragma unroll 1
  for (int l = (int)threadIdx.x; l < chain.terms; l += IDRS_THREADS) operands.place[l] = chain.place[l];
  __syncthreads();
  for (int stage = 0; stage < IDRS_SLAB_STAGES; stage++, next += stride) {
    if (next < n) IDRSSlabCopy<W>(operands, chain.loads, next, n, slabs + stage * chain.columns * IDRS_SLAB_STRIDE);
    IDRSCopyCommit();
  }
  for (int turn = 0; first < n; turn = (turn + 1) % IDRS_SLAB_STAGES, first += stride, next += stride) {
    PetscScalar *slab = slabs + turn * chain.columns * IDRS_SLAB_STRIDE;

    IDRSCopyWait<IDRS_SLAB_STAGES - 1>();
    __syncthreads(); /* all of this slab is there */
    for (int l = 0; l < chain.count; l++)
      IDRSSlabMake<N, W>(first + row, n, chain.sum[l], width, chain.diagonal, operands,
                         reinterpret_cast<IDRSPack<2> *>(slab + row));
    __syncthreads(); /* and has been used */
    if (next < n) IDRSSlabCopy<W>(operands, chain.loads, next, n, slab);
    IDRSCopyCommit();
  }
  IDRSCopyWait<0>();
}

/* A chain that grows, and a table of its columns: their places plus 1, at hashes of their pointers */
  #define IDRS_SLAB_ENTRIES 256

typedef struct {
  IDRSSlabChain  chain;
  unsigned short entry[IDRS_SLAB_ENTRIES];
  bool           written[IDRS_SLAB_COLUMNS];
  /* columns for which there is room; columns that are read and written where each sum is made by itself */
  int  room, alone;
  bool packed;
} IDRSSlabPlan;

/* The place of a column, a new one where the chain does not have it, or -1 where there is no room */
static int IDRSSlabPlace(IDRSSlabPlan *plan, PetscScalar *column, bool load)
{
  IDRSSlabChain *chain = &plan->chain;
  size_t         at    = (size_t)(((uint64_t)(uintptr_t)column / sizeof(PetscScalar) * UINT64_C(0x9e3779b97f4a7c15)) >> 32) %
              IDRS_SLAB_ENTRIES;

  while (plan->entry[at] && chain->column[plan->entry[at] - 1] != column) at = (at + 1) % IDRS_SLAB_ENTRIES;
  if (plan->entry[at]) return plan->entry[at] - 1;
  if (chain->columns == plan->room) return -1;
  plan->packed                    = plan->packed && IDRSAligned(column);
  chain->column[chain->columns++] = column;
  plan->entry[at]                 = (unsigned short)chain->columns;
  if (load) chain->load[chain->loads++] = (unsigned char)(chain->columns - 1);
  return chain->columns - 1;
}

/* Adds operands, as far as there is room. Returns whether there was */
static bool IDRSSlabAddOperands(IDRSSlabPlan *plan, PetscInt count, const IDRSBlockVec columns[], bool load)
{
  IDRSSlabChain *chain = &plan->chain;

  if (chain->terms + count > IDRS_SLAB_TERMS) return false;
  for (PetscInt l = 0; l < count; l++) {
    const int place = IDRSSlabPlace(plan, columns[l].array, load);

    if (place < 0) return false;
    chain->place[chain->terms++] = (unsigned char)place;
  }
  return true;
}

/*
   Adds a sum, if there is room for all of it, else nothing, and no other sum may be added then: the table would not be right.
   Returns whether there was
*/
static bool IDRSSlabAddSum(IDRSSlabPlan *plan, const IDRSBlockAxpy *sum, const PetscScalar *C, PetscScalar *diagonal)
{
  IDRSSlabChain *chain   = &plan->chain;
  const int      columns = chain->columns, loads = chain->loads, terms = chain->terms, scaled = diagonal ? (int)sum->scaled : 0;
  bool           fits = chain->count < IDRS_SLAB_SUMS;

  if (fits && scaled) {
    chain->diagonal = IDRSSlabPlace(plan, diagonal, true);
    fits            = chain->diagonal >= 0;
  }
  fits = fits && IDRSSlabAddOperands(plan, sum->nx, sum->x, true) && IDRSSlabAddOperands(plan, sum->ny, sum->y, sum->add);
  if (fits) {
    chain->sum[chain->count++] = {C, terms, (int)sum->nx, (int)sum->ny, scaled, (bool)sum->add};
    plan->alone += (int)(sum->nx + (sum->add ? 2 : 1) * sum->ny);
    for (PetscInt j = 0; j < sum->ny; j++) plan->written[chain->place[terms + sum->nx + j]] = true;
  } else {
    chain->columns = columns;
    chain->loads   = loads;
    chain->terms   = terms;
  }
  return fits;
}

/*
   Whether slabs are faster than sums by themselves: where a quarter of what is read and written is saved. 4 096 000 rows, 8
   columns, s = 4, on an H100: 223.0 us a matvec and column where all combines of a cycle had slabs, which moved 53 blocks then, and
   233.8 where none had, and 74 were moved. From that it is reckoned that slabs move 2.2 TB/s, where sums by themselves move 2.9
*/
static bool IDRSSlabPays(const IDRSSlabPlan *plan)
{
  int together = plan->chain.loads;

  for (int l = 0; l < plan->chain.columns; l++) together += plan->written[l] ? 1 : 0;
  return 4 * together <= 3 * plan->alone;
}

template <int N, int W>
static PetscErrorCode IDRSSlabLaunch_CUDA(const IDRS_CUDA *cuda, size_t n, PetscInt width, const PetscBool *stopped, int all,
                                          const IDRSSlabChain &chain, cudaStream_t stream)
{
  const size_t shared   = (size_t)(chain.columns * IDRS_SLAB_BYTES),
               resident = PetscMin((size_t)all / (shared + IDRS_SLAB_OTHER), (size_t)IDRS_SLAB_MOST);

  PetscFunctionBegin;
  /* on every device that a process uses */
  PetscCallCUDA(cudaFuncSetAttribute(IDRSBlockSlabKernel<N, W>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  PetscCallCUDA(cudaFuncSetAttribute(IDRSBlockSlabKernel<N, W>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared));
  IDRSBlockSlabKernel<N, W>
    <<<(unsigned int)PetscMin((n + IDRS_SLAB_ROWS - 1) / IDRS_SLAB_ROWS, resident * (size_t)cuda->multiprocessors), IDRS_THREADS,
       shared, stream>>>(n, (int)width, stopped, chain);
  PetscCallCUDA(cudaGetLastError());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSBlockSlabs_CUDA - Launches the first of these sums, as many as there is room for in shared memory, if that is faster

   Input Parameters:
+  width - coefficients of a column of X
.  diagonal - on the device, or NULL
-  stopped - where the device may have stopped, or NULL

   Output Parameter:
.  made - how many, 0 where they are to be made without slabs
*/
PetscErrorCode IDRSBlockSlabs_CUDA(IDRSWork work, PetscInt width, PetscInt count, const IDRSBlockAxpy sums[], const PetscScalar *C,
                                   const PetscScalar *diagonal, const PetscBool *stopped, PetscInt *made)
{
  const IDRS_CUDA *cuda = (const IDRS_CUDA *)work->data;
  IDRSSlabPlan     plan = {};
  int              device, most, all;
  cudaStream_t     stream;

  PetscFunctionBegin;
  PetscCall(IDRSStream_CUDA(&stream));
  PetscCallCUDA(cudaGetDevice(&device));
  PetscCallCUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  PetscCallCUDA(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  plan.packed = true;

  plan.room = PetscMin(IDRS_SLAB_COLUMNS,
                       PetscMin(all / IDRS_SLAB_FEWEST - IDRS_SLAB_OTHER, most - (int)sizeof(IDRSSlabOperands)) / IDRS_SLAB_BYTES);

  *made = 0;
  while (*made < count && IDRSSlabAddSum(&plan, &sums[*made], C, (PetscScalar *)diagonal)) C += sums[(*made)++].nx * width;
  if (!IDRSSlabPays(&plan)) *made = 0;
  if (*made && work->n) {
    auto launch = [&](auto N, auto W) {
      return IDRSSlabLaunch_CUDA<N, W>(cuda, (size_t)work->n, width, stopped, all, plan.chain, stream);
    };

    PetscCall(PetscLogGpuTimeBegin());
    if (width <= IDRS_SLAB_TILE)
      PetscCall(plan.packed ? launch(IDRSInt<1>(), IDRSInt<IDRS_PACK>()) : launch(IDRSInt<1>(), IDRSInt<1>()));
    else PetscCall(plan.packed ? launch(IDRSInt<2>(), IDRSInt<IDRS_PACK>()) : launch(IDRSInt<2>(), IDRSInt<1>()));
    PetscCall(PetscLogGpuTimeEnd());
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

#else

/*
   Complex scalars: slabs would have half as many rows in as much memory, and take twice the multiplications a byte. That has not
   been tried: all sums stream by
*/
PetscErrorCode IDRSBlockSlabs_CUDA(IDRSWork, PetscInt, PetscInt, const IDRSBlockAxpy[], const PetscScalar *, const PetscScalar *,
                                   const PetscBool *, PetscInt *made)
{
  PetscFunctionBegin;
  *made = 0;
  PetscFunctionReturn(PETSC_SUCCESS);
}

#endif
