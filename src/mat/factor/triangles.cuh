/*
   Both triangles of a solve in one kernel: x_i = b_i - sum over j of A_ij x_j, for tile rows in the order of their levels.

   A row of the matrix and a column of x have 1 to 32 lanes of a warp, more if the row is long. The lanes load their entries of A,
   and then wait for the entries of x that other warps compute. If a level has few rows, it takes the time of one message. Warps
   process chunks of rows in the order of the levels. Rows of one chunk do not depend on each other, and all warps are resident, so
   the first row that is not done depends only on rows that are done. The lanes of a warp wait until all of them can continue, see
   IDRSGoesOn(). A sum has the same order in every run.

   Reads A, and the right-hand side of the first triangle; writes the entries of both triangles as marked scalars, and x.

   If all entries fit into the shared memory of a block, one cluster computes the solve, and each entry is stored in all of its
   blocks. A message then takes a third of the time.
*/
#pragma once

#include "factorimpl.h"
#include "../../sys/kernels/wait.cuh"
#include "../../sys/device/cluster.cuh"

/* Threads per block, and blocks per multiprocessor at most */
#define IDRS_TRIANGLE_THREADS 512
#define IDRS_TRIANGLE_BLOCKS  1

/* A triangle of IDRSTriangleCreate(). A chunk has as many units of work as x has columns */
typedef struct {
  PetscInt    *order, *i, *j, *chunks, *lanes, *rhs; /* rhs: for the second triangle: place of each tile row in the first */
  PetscScalar *a;
  IDRSMarked  *x; /* entries by places, with all columns of a row adjacent */
  PetscInt     units;
} IDRSStage;

typedef struct {
  IDRSStage          stage[2];
  const PetscScalar *b;    /* in the order of the first triangle */
  PetscScalar       *out;  /* x, or NULL */
  const PetscInt    *rows; /* row in x of each entry, or NULL: the same */
  PetscInt           ld;
  int                bs, columns, width; /* columns of b and x; padded to a power of 2 */
  int               *timedout;           /* on the host: a wait has reached its limit */
  unsigned int       polls;              /* most polls of a warp that waits */
} IDRSTriangles;

/* The entries x of the first triangle and y of the second one, in global memory */
struct IDRSTriangleGlobal : IDRSMarkedInGlobal {
  IDRSMarked *x, *y;

  __device__ __forceinline__ IDRSMarked *Of(bool second) const { return second ? y : x; }

  __device__ __forceinline__ void Store(bool second, size_t place, PetscScalar value) const
  {
    IDRSMarkedStore(Of(second) + place, value);
  }
};

/*
   The same in the shared memory of each block of a cluster: a thread stores an entry in all blocks, at the same offset, and a
   waiting thread polls only the copy in its own block. keeps: the second triangle in global memory, or NULL
*/
struct IDRSTriangleCluster {
  IDRSMarked  *x, *y, *keeps;
  unsigned int blocks;

  __device__ __forceinline__ IDRSMarked *Of(bool second) const { return second ? y : x; }

  static __device__ __forceinline__ void LoadIf(bool ask, const IDRSMarked *from, IDRSMarked *marked)
  {
    const unsigned int here = (unsigned int)__cvta_generic_to_shared(from);

#pragma unroll
    for (int k = 0; k < IDRS_PARTS; k++)
      IDRS_CLUSTER_CODE(IDRS_PTX_LOAD_IF("cluster.shared::cta") : "+" IDRS_PTX_REGISTER(marked->part[k]) : "r"(
                          here + k * (unsigned int)sizeof(IDRSBits)),
                        "r"((unsigned int)ask) : "memory");
  }

  __device__ __forceinline__ void Store(bool second, size_t place, PetscScalar value) const
  {
    const PetscReal    real[2] = {PetscRealPart(value), PetscImaginaryPart(value)};
    const unsigned int here    = (unsigned int)__cvta_generic_to_shared(Of(second) + place);

    for (unsigned int rank = 0; rank < blocks; rank++) {
      unsigned int there = here;

      IDRS_CLUSTER_CODE("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(there) : "r"(rank));
#pragma unroll
      for (int k = 0; k < IDRS_PARTS; k++)
        IDRS_CLUSTER_CODE("st.relaxed.cluster.shared::cluster" IDRS_PTX_BITS
                          " [%0], %1;" ::"r"(there + k * (unsigned int)sizeof(IDRSBits)),
                          IDRS_PTX_REGISTER(IDRSRealBits(real[k])) : "memory");
    }
    if (second && keeps) IDRSMarkedStore(keeps + place, value);
  }
};

/* Entries of a row that a lane waits for at the same time */
typedef struct {
  const IDRSMarked *from[IDRS_TRIANGLE_ATONCE];
  PetscScalar       value[IDRS_TRIANGLE_ATONCE];
  bool              wanted[IDRS_TRIANGLE_ATONCE];
} IDRSTriangleBatch;

/* The row of the matrix and the column of x of a lane: row r of the tile row at this place */
typedef struct {
  PetscInt place;
  int      bs, r, width, column, lanes;
} IDRSTriangleRow;

/* Loads a batch from element e on. The tile row begins with entry first; elements: columns of its tiles */
template <bool TILES>
static __device__ __forceinline__ void IDRSTriangleBatchLoad(const IDRSStage &stage, const IDRSMarked *x,
                                                             const IDRSTriangleRow &row, PetscInt first, PetscInt e,
                                                             PetscInt elements, IDRSTriangleBatch &batch)
{
  const int bs = row.bs;

#pragma unroll
  for (int l = 0; l < IDRS_TRIANGLE_ATONCE; l++) {
    const PetscInt element = e + l * row.lanes, p = first + (TILES ? element / bs : element), s = TILES ? element % bs : 0;

    batch.wanted[l] = element < elements;
    batch.value[l]  = batch.wanted[l] ? IDRSLoadConstant(stage.a + (TILES ? ((size_t)p * bs + row.r) * bs + s : (size_t)p))
                                      : (PetscScalar)0.0;
    batch.from[l]   = batch.wanted[l] ? x + ((size_t)stage.j[p] * (TILES ? bs : 1) + s) * row.width + row.column : x;
  }
}

/*
   Returns the part of this lane of a row, sum over j of A_ij x_j. The next batch is loaded during the wait for this one. One warp
*/
template <bool TILES, typename Places>
static __device__ __forceinline__ PetscScalar IDRSTriangleRowPart(const IDRSStage &stage, const IDRSMarked *x,
                                                                  const IDRSTriangleRow &row, int part, bool there,
                                                                  IDRSWaitPolls *wait)
{
  const PetscInt    first = stage.i[row.place], step = IDRS_TRIANGLE_ATONCE * row.lanes;
  const PetscInt    elements = there ? (stage.i[row.place + 1] - first) * (TILES ? row.bs : 1) : 0;
  PetscScalar       sum      = 0.0;
  IDRSTriangleBatch batch, next;

  IDRSTriangleBatchLoad<TILES>(stage, x, row, first, part, elements, batch);
  for (PetscInt e = part; !IDRSWarpAll(e >= elements); e += step) {
    IDRSMarked marked[IDRS_TRIANGLE_ATONCE];

    IDRSTriangleBatchLoad<TILES>(stage, x, row, first, e + step, elements, next);
    IDRSWaitForMarked<IDRS_TRIANGLE_ATONCE, Places>(batch.from, batch.wanted, marked, wait);
#pragma unroll
    for (int l = 0; l < IDRS_TRIANGLE_ATONCE; l++) {
      if (batch.wanted[l]) sum += batch.value[l] * IDRSMarkedValue(marked[l]);
    }
    batch = next;
  }
  return sum;
}

template <bool TILES, typename Places>
static __device__ __forceinline__ void IDRSTrianglesSolve(const IDRSTriangles &triangles, const Places &places)
{
  const int      lane = threadIdx.x % IDRS_WARP, width = triangles.width, bs = triangles.bs, column = lane % width;
  const PetscInt warps = gridDim.x * (IDRS_TRIANGLE_THREADS / IDRS_WARP);
  IDRSWaitPolls  wait  = {triangles.polls};

  for (PetscInt unit = (blockIdx.x * IDRS_TRIANGLE_THREADS + threadIdx.x) / IDRS_WARP;
       unit < triangles.stage[0].units + triangles.stage[1].units; unit += warps) {
    const bool       second = unit >= triangles.stage[0].units;
    const IDRSStage &stage  = triangles.stage[second];
    const PetscInt   number = second ? unit - triangles.stage[0].units : unit, chunk = number / width, begin = stage.chunks[chunk];
    const int  lanes = min((int)stage.lanes[chunk], IDRS_WARP / width), group = width * lanes; /* lanes of all columns of a row */
    const int  rows = (int)(stage.chunks[chunk + 1] - begin) * bs, first = (int)(number % width) * (IDRS_WARP / group);
    const int  row = first + lane / group, part = lane / width % lanes;
    const bool there     = row < rows;
    const PetscInt place = begin + (there ? (TILES ? row / bs : row) : 0);
    const int      r     = there && TILES ? row % bs : 0;
    const size_t   here  = ((size_t)place * bs + r) * width + column;
    PetscScalar    rhs, sum;

    if (first >= rows) continue;
    if (second) {
      const IDRSMarked *const from[1]   = {places.x + ((size_t)stage.rhs[place] * bs + r) * width + column};
      const bool              wanted[1] = {true};
      IDRSMarked              marked[1];

      IDRSWaitForMarked<1, Places>(from, wanted, marked, &wait);
      rhs = IDRSMarkedValue(marked[0]);
    } else rhs = IDRSLoadConstant(triangles.b + here);
    sum = IDRSTriangleRowPart<TILES, Places>(stage, places.Of(second), {place, bs, r, width, column, lanes}, part, there, &wait);
    for (int offset = width; offset < group; offset *= 2) sum += IDRSShuffleXor(sum, offset);
    if (!there || part) continue;
    places.Store(second, here, rhs - sum);
    if (second && triangles.out && column < triangles.columns) {
      const PetscInt entry = stage.order[place] * bs + r;

      triangles.out[(size_t)column * triangles.ld + (triangles.rows ? triangles.rows[entry] : entry)] = rhs - sum;
    }
  }
  if (!wait.left) *(volatile int *)triangles.timedout = 1;
}

template <bool TILES>
static __global__ void __launch_bounds__(IDRS_TRIANGLE_THREADS) IDRSTrianglesKernel(const __grid_constant__ IDRSTriangles triangles)
{
  IDRSTrianglesSolve<TILES>(triangles, IDRSTriangleGlobal{{}, triangles.stage[0].x, triangles.stage[1].x});
}

/* entries: per triangle, in dynamic shared memory */
template <bool TILES>
static __global__ void __launch_bounds__(IDRS_TRIANGLE_THREADS)
  IDRSTrianglesClusterKernel(const __grid_constant__ IDRSTriangles triangles, size_t entries)
{
  extern __shared__ IDRSMarked marked[];

  for (size_t i = threadIdx.x; i < 2 * entries; i += IDRS_TRIANGLE_THREADS) IDRSMarkedClear(marked + i);
  IDRSClusterBarrier();
  IDRSTrianglesSolve<TILES>(triangles,
                            IDRSTriangleCluster{marked, marked + entries, triangles.out ? NULL : triangles.stage[1].x, gridDim.x});
  __syncwarp();
  IDRSClusterBarrier(); /* until then other blocks store into the shared memory of this one */
}
