/*
   Writes a system as PETSc's binary files NAME.mat and NAME.rhs, with 32-bit integers.

     generate -problem central|recirculating|lognormal|stretched|tetrahedra -n N -o NAME

   central, recirculating, lognormal: convection and diffusion by finite volumes in a cube of N^3 cells, zero on the boundary. central:
   wind (1, 0.5, 0.25), central differences, mesh Peclet number 0.5; recirculating: a wind that turns about the middle of x and y, with
   0.2 in z, upwind differences, mesh Peclet number 2; lognormal: diffusion alone, the logarithm of the conductivity of each cell is
   random with standard deviation 2.
   stretched: the pressure behind a backward-facing step in two dimensions, about N^2 cells. The normal derivative is zero except at the
   outlet on the right, where the pressure is zero. Cells grow by a factor of 40 from the corner of the step in both directions.
   tetrahedra: convection and diffusion by linear finite elements on N^3 inner points, which move by up to 0.2 of the distance of the
   grid and are numbered at random; six tetrahedra for each cube (Kuhn), the wind of recirculating, streamline upwinding.
*/
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int     rows, *start, *columns;
  double *values;
} Matrix;

/* Number i of a sequence in [0,1) without a pattern: splitmix64 */
static double Random(int64_t i)
{
  uint64_t z = (uint64_t)i + 0x9e3779b97f4a7c15u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static void *Allocate(size_t count, size_t bytes)
{
  void *memory = calloc(count, bytes);

  if (memory) return memory;
  fprintf(stderr, "generate: not enough memory\n");
  exit(1);
}

static Matrix Create(int rows, size_t nonzeros)
{
  Matrix A = {rows, (int *)Allocate((size_t)rows + 1, sizeof(int)), (int *)Allocate(nonzeros, sizeof(int)),
              (double *)Allocate(nonzeros, sizeof(double))};

  return A;
}

/* Adds an entry to the row that is being written; columns must increase */
static void Append(Matrix *A, int row, int column, double value)
{
  const int k = A->start[row + 1]++;

  A->columns[k] = column;
  A->values[k]  = value;
}

/* Sum of four uniform numbers: nearly normal, with variance 1/3 */
static double Conductivity(double sigma, int64_t cell, int64_t n)
{
  const double sum = Random(cell) + Random(cell + n) + Random(cell + 2 * n) + Random(cell + 3 * n);

  return exp(1.7 * sigma * (sum - 2.0));
}

/* Outward wind on a face of a cell, times the width of a cell: no wind crosses the walls in x and y */
static double Wind(int turning, int direction, int side, const int place[], int n)
{
  const double straight[] = {1.0, 0.5, 0.25}, sign = side ? 1.0 : -1.0;
  const double x = (place[0] + 0.5) / n - 0.5, y = (place[1] + 0.5) / n - 0.5;

  if (!turning) return sign * straight[direction];
  if (direction == 2) return sign * 0.2;
  if (place[direction] == (side ? n - 1 : 0)) return 0.0;
  return sign * (direction ? 2.0 * x : -2.0 * y);
}

/* Conductance of a face between two cells is the harmonic mean; the boundary is half a cell away */
static Matrix Volumes(int n, double peclet, int turning, double sigma)
{
  const int cells = n * n * n, step[3] = {1, n, n * n},
            order[7] = {4, 2, 0, 6, 1, 3, 5}; /* faces by number of the column; 6: row */
  double *k          = (double *)Allocate((size_t)cells, sizeof(double));
  Matrix  A          = Create(cells, 7 * (size_t)cells);

  for (int row = 0; row < cells; row++) k[row] = sigma > 0 ? Conductivity(sigma, row, cells) : 1.0;
  for (int row = 0; row < cells; row++) {
    const int place[3] = {row % n, row / n % n, row / (n * n)};
    double    entry[7] = {0};
    int       other[7];

    other[6] = row;
    for (int face = 0; face < 6; face++) {
      const int    direction = face / 2, side = face % 2;
      const int    inside = place[direction] != (side ? n - 1 : 0);
      const double wind   = 2.0 * peclet * Wind(turning, direction, side, place, n);
      double       conductance;

      other[face] = inside ? row + (side ? 1 : -1) * step[direction] : -1;
      conductance = inside ? 2.0 * k[row] * k[other[face]] / (k[row] + k[other[face]]) : 2.0 * k[row];
      entry[face] = -conductance + (turning ? fmin(wind, 0.0) : 0.5 * wind);
      entry[6] += conductance + (turning ? fmax(wind, 0.0) : 0.5 * wind);
    }
    A.start[row + 1] = A.start[row];
    for (int i = 0; i < 7; i++) {
      if (other[order[i]] >= 0) Append(&A, row, other[order[i]], entry[order[i]]);
    }
  }
  free(k);
  return A;
}

/* Widths of cells that grow from 1 at the corner to 40 at the farther end */
static double *Widths(int count, int corner)
{
  const int far   = corner > count - corner ? corner : count - corner;
  double   *width = (double *)Allocate((size_t)count, sizeof(double));

  for (int i = 0; i < count; i++) width[i] = exp(log(40.0) * (i < corner ? corner - 1 - i : i - corner) / far);
  return width;
}

static Matrix Stretched(int n)
{
  const int nx = 12 * n / 11, ny = n, left = nx / 4, low = ny / 3; /* the step takes left by low cells */
  double   *dx = Widths(nx, left), *dy = Widths(ny, low);
  int      *number = (int *)Allocate((size_t)nx * (size_t)ny, sizeof(int)), rows = 0;
  Matrix    A;

  for (int i = 0; i < nx * ny; i++) number[i] = i % nx < left && i / nx < low ? -1 : rows++;
  A = Create(rows, 5 * (size_t)rows);
  for (int i = 0; i < nx * ny; i++) {
    const int x = i % nx, y = i / nx, row = number[i], order[5] = {0, 1, 4, 2, 3};
    int       other[5]; /* below, left, right, above, itself */
    double    entry[5] = {0};

    if (row < 0) continue;
    other[0] = y > 0 ? number[i - nx] : -1;
    other[1] = x > 0 ? number[i - 1] : -1;
    other[2] = x < nx - 1 ? number[i + 1] : -1;
    other[3] = y < ny - 1 ? number[i + nx] : -1;
    other[4] = row;
    if (other[0] >= 0) entry[0] = -2.0 * dx[x] / (dy[y] + dy[y - 1]);
    if (other[1] >= 0) entry[1] = -2.0 * dy[y] / (dx[x] + dx[x - 1]);
    if (other[2] >= 0) entry[2] = -2.0 * dy[y] / (dx[x] + dx[x + 1]);
    if (other[3] >= 0) entry[3] = -2.0 * dx[x] / (dy[y] + dy[y + 1]);
    entry[4]         = (x == nx - 1 ? 2.0 * dy[y] / dx[x] : 0.0) - entry[0] - entry[1] - entry[2] - entry[3];
    A.start[row + 1] = A.start[row];
    for (int j = 0; j < 5; j++) {
      if (other[order[j]] >= 0) Append(&A, row, other[order[j]], entry[order[j]]);
    }
  }
  free(dx);
  free(dy);
  free(number);
  return A;
}

/* Position of a point of the grid of (n+2)^3 points, in units of its distances; each coordinate moves by up to 0.2/sqrt(3) */
static void Position(const int point[], int n, double position[])
{
  const int64_t m = n + 2, index = point[0] + m * (point[1] + m * point[2]);
  int           inner = 1;

  for (int d = 0; d < 3; d++) inner = inner && point[d] > 0 && point[d] <= n;
  for (int d = 0; d < 3; d++) position[d] = point[d] + (inner ? (2.0 * Random(3 * index + d) - 1.0) * 0.2 / sqrt(3.0) : 0.0);
}

/*
   K(i,j) = V (g_i . g_j + w . g_j / 4 + tau (w . g_i) (w . g_j)) for a tetrahedron with volume V, gradients g of the hat functions and
   wind w at its centre, which has the unit of the mesh Peclet number; tau as in one dimension
*/
static void Element(double corner[4][3], int n, double K[4][4])
{
  double edge[3][3], gradient[4][3], wind[3], along[4], centre[2] = {0, 0}, volume, speed, tau;

  for (int e = 0; e < 3; e++) {
    for (int d = 0; d < 3; d++) edge[e][d] = corner[e + 1][d] - corner[0][d];
  }
  for (int e = 0; e < 3; e++) {
    const double *a = edge[(e + 1) % 3], *b = edge[(e + 2) % 3];

    for (int d = 0; d < 3; d++) gradient[e + 1][d] = a[(d + 1) % 3] * b[(d + 2) % 3] - a[(d + 2) % 3] * b[(d + 1) % 3];
  }
  volume = edge[0][0] * gradient[1][0] + edge[0][1] * gradient[1][1] + edge[0][2] * gradient[1][2]; /* six times, with a sign */
  for (int d = 0; d < 3; d++) {
    for (int e = 1; e < 4; e++) gradient[e][d] /= volume;
    gradient[0][d] = -gradient[1][d] - gradient[2][d] - gradient[3][d];
  }
  volume = fabs(volume) / 6.0;
  for (int i = 0; i < 4; i++) {
    for (int d = 0; d < 2; d++) centre[d] += 0.25 * corner[i][d] / (n + 1);
  }
  wind[0] = 4.0 * -2.0 * (centre[1] - 0.5); /* 2 peclet w with mesh Peclet number 2 */
  wind[1] = 4.0 * 2.0 * (centre[0] - 0.5);
  wind[2] = 4.0 * 0.2;
  speed   = sqrt(wind[0] * wind[0] + wind[1] * wind[1] + wind[2] * wind[2]);
  tau     = fmax(1.0 - 2.0 / speed, 0.0) / (2.0 * speed);
  for (int i = 0; i < 4; i++) along[i] = wind[0] * gradient[i][0] + wind[1] * gradient[i][1] + wind[2] * gradient[i][2];
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < 4; j++) {
      K[i][j] = tau * along[i] * along[j] + 0.25 * along[j];
      for (int d = 0; d < 3; d++) K[i][j] += gradient[i][d] * gradient[j][d];
      K[i][j] *= volume;
    }
  }
}

/* Returns the number of an inner point, or -1 */
static int Inner(const int point[], int n)
{
  for (int d = 0; d < 3; d++) {
    if (point[d] < 1 || point[d] > n) return -1;
  }
  return point[0] - 1 + n * (point[1] - 1 + n * (point[2] - 1));
}

/*
   Adds the tetrahedra of a cube to slots, 15 for each inner point. The corners of a cube are 0 to 7, bit d for direction d. A corner of
   a tetrahedron contains the bits of the one before, so the neighbours of a point differ from it by the bits m in one direction (slot
   7 + m) or the other (7 - m)
*/
static void AddCube(const int cube[], int n, double slots[])
{
  const int paths[6][4] = {
    {0, 1, 3, 7},
    {0, 1, 5, 7},
    {0, 2, 3, 7},
    {0, 2, 6, 7},
    {0, 4, 5, 7},
    {0, 4, 6, 7}
  };

  for (int t = 0; t < 6; t++) {
    double corner[4][3], K[4][4];
    int    inner[4];

    for (int i = 0; i < 4; i++) {
      const int point[3] = {cube[0] + (paths[t][i] & 1), cube[1] + (paths[t][i] >> 1 & 1), cube[2] + (paths[t][i] >> 2)};

      Position(point, n, corner[i]);
      inner[i] = Inner(point, n);
    }
    Element(corner, n, K);
    for (int i = 0; i < 4; i++) {
      for (int j = 0; j < 4; j++) {
        if (inner[i] >= 0 && inner[j] >= 0) slots[15 * (size_t)inner[i] + (size_t)(7 + paths[t][j] - paths[t][i])] += K[i][j];
      }
    }
  }
}

/* Returns a permutation that does not depend on the machine */
static int *Shuffled(int count)
{
  int *number = (int *)Allocate((size_t)count, sizeof(int));

  for (int i = 0; i < count; i++) number[i] = i;
  for (int i = count - 1; i > 0; i--) {
    const int j = (int)(Random(i + ((int64_t)1 << 40)) * (i + 1)), keep = number[i];

    number[i] = number[j];
    number[j] = keep;
  }
  return number;
}

static Matrix Tetrahedra(int n)
{
  const int rows  = n * n * n;
  double   *slots = (double *)Allocate(15 * (size_t)rows, sizeof(double));
  int      *row = Shuffled(rows), *point = (int *)Allocate((size_t)rows, sizeof(int));
  Matrix    A = Create(rows, 15 * (size_t)rows);

  for (int z = 0; z <= n; z++) {
    for (int y = 0; y <= n; y++) {
      for (int x = 0; x <= n; x++) AddCube((const int[]){x, y, z}, n, slots);
    }
  }
  for (int i = 0; i < rows; i++) point[row[i]] = i;
  for (int i = 0; i < rows; i++) {
    const int at[3] = {point[i] % n + 1, point[i] / n % n + 1, point[i] / (n * n) + 1};

    A.start[i + 1] = A.start[i];
    for (int slot = 0; slot < 15; slot++) {
      const int m = abs(slot - 7), sign = slot < 7 ? -1 : 1;
      const int other = Inner((const int[]){at[0] + sign * (m & 1), at[1] + sign * (m >> 1 & 1), at[2] + sign * (m >> 2)}, n);
      int       k     = A.start[i + 1];

      if (other < 0) continue;
      for (; k > A.start[i] && A.columns[k - 1] > row[other]; k--) { /* sorts by insertion */
        A.columns[k] = A.columns[k - 1];
        A.values[k]  = A.values[k - 1];
      }
      A.columns[k] = row[other];
      A.values[k]  = slots[15 * (size_t)point[i] + (size_t)slot];
      A.start[i + 1]++;
    }
  }
  free(slots);
  free(row);
  free(point);
  return A;
}

/* Writes numbers of 4 or 8 bytes with the most significant byte first, in their own memory */
static void Write(FILE *file, size_t bytes, size_t count, void *numbers)
{
  for (size_t i = 0; i < count; i++) {
    if (bytes == 4) ((uint32_t *)numbers)[i] = __builtin_bswap32(((uint32_t *)numbers)[i]);
    else ((uint64_t *)numbers)[i] = __builtin_bswap64(((uint64_t *)numbers)[i]);
  }
  if (fwrite(numbers, bytes, count, file) == count) return;
  perror("generate");
  exit(1);
}

static FILE *Open(const char *name, const char *ending)
{
  char  path[4096];
  FILE *file;

  snprintf(path, sizeof(path), "%s.%s", name, ending);
  if ((file = fopen(path, "wb"))) return file;
  perror(path);
  exit(1);
}

/* Writes the matrix, which is useless afterwards, and random numbers in [-0.5,0.5) as the right-hand side */
static int WriteSystem(const char *name, Matrix A)
{
  const int    nonzeros = A.start[A.rows];
  const size_t rows     = (size_t)A.rows;
  int          head[4]  = {1211216, A.rows, A.rows, nonzeros};
  int          bhead[2] = {1211214, A.rows};
  FILE        *file     = Open(name, "mat");
  int          closed;

  for (size_t i = rows; i > 0; i--) A.start[i] -= A.start[i - 1];
  Write(file, 4, 4, head);
  Write(file, 4, rows, A.start + 1);
  Write(file, 4, (size_t)nonzeros, A.columns);
  Write(file, 8, (size_t)nonzeros, A.values);
  closed = fclose(file);
  file   = Open(name, "rhs");
  for (size_t i = 0; i < rows; i++) A.values[i] = Random((int64_t)i + 7 * (int64_t)rows) - 0.5;
  Write(file, 4, 2, bhead);
  Write(file, 8, rows, A.values);
  return closed || fclose(file);
}

int main(int argc, char **argv)
{
  const char *problem = "", *name = NULL;
  int         n = 0;
  Matrix      A;

  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "-problem")) problem = argv[i + 1];
    if (!strcmp(argv[i], "-n")) n = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "-o")) name = argv[i + 1];
  }
  if (n < 2 || !name) {
    fprintf(stderr, "usage: generate -problem central|recirculating|lognormal|stretched|tetrahedra -n N -o NAME\n");
    return 1;
  }
  if (!strcmp(problem, "central")) A = Volumes(n, 0.5, 0, 0.0);
  else if (!strcmp(problem, "recirculating")) A = Volumes(n, 2.0, 1, 0.0);
  else if (!strcmp(problem, "lognormal")) A = Volumes(n, 0.0, 0, 2.0);
  else if (!strcmp(problem, "stretched")) A = Stretched(n);
  else if (!strcmp(problem, "tetrahedra")) A = Tetrahedra(n);
  else {
    fprintf(stderr, "generate: unknown -problem %s\n", problem);
    return 1;
  }
  return WriteSystem(name, A);
}
