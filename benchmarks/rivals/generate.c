/*
   Writes a system as PETSc's binary files NAME.mat and NAME.rhs, with 32-bit integers.

     generate -problem central|recirculating|lognormal|stretched|tetrahedra -n N -o NAME

   central, recirculating, lognormal: convection and diffusion by finite volumes in a cube of N^3 cells, zero on the boundary.
   central has the wind (1, 0.5, 0.25), central differences and mesh Peclet number 0.5. recirculating has a wind that turns about
   the middle of x and y, with 0.2 in z, upwind differences and mesh Peclet number 2. lognormal is diffusion alone; the logarithm of
   the conductivity of each cell is random with standard deviation 2.
   stretched: the pressure behind a backward-facing step in two dimensions, about N^2 cells. The normal derivative is zero except at
   the outlet on the right, where the pressure is zero. The width of cells grows by a factor of 40 from the corner of the step.
   tetrahedra: convection and diffusion by linear finite elements on N^3 inner points, with six tetrahedra for each cube (Kuhn), the
   wind of recirculating, and streamline upwinding. Points move by up to 0.2 of their distance and are numbered at random.
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

/* Adds a row behind the ones before, sorted by columns; an entry with a negative column is outside the domain */
static void AddRow(Matrix *A, int row, int count, const int columns[], const double values[])
{
  const int begin = A->start[row];
  int       end   = begin;

  for (int i = 0; i < count; i++) {
    int k = end;

    if (columns[i] < 0) continue;
    for (; k > begin && A->columns[k - 1] > columns[i]; k--) {
      A->columns[k] = A->columns[k - 1];
      A->values[k]  = A->values[k - 1];
    }
    A->columns[k] = columns[i];
    A->values[k]  = values[i];
    end++;
  }
  A->start[row + 1] = end;
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
  const int cells = n * n * n, step[3] = {1, n, n * n};
  double   *k = (double *)Allocate((size_t)cells, sizeof(double));
  Matrix    A = Create(cells, 7 * (size_t)cells);

  for (int row = 0; row < cells; row++) k[row] = sigma > 0 ? Conductivity(sigma, row, cells) : 1.0;
  for (int row = 0; row < cells; row++) {
    const int place[3] = {row % n, row / n % n, row / (n * n)};
    double    entry[7] = {0}; /* of the six faces, and of the diagonal */
    int       other[7] = {0, 0, 0, 0, 0, 0, row};

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
    AddRow(&A, row, 7, other, entry);
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
    const int place[2] = {i % nx, i / nx}, last[2] = {nx - 1, ny - 1}, step[2] = {1, nx};
    double    entry[5] = {0}; /* of the four faces, and of the diagonal */
    int       other[5] = {0, 0, 0, 0, number[i]};

    if (number[i] < 0) continue;
    for (int face = 0; face < 4; face++) {
      const int     direction = face / 2, side = face % 2, at = place[direction], next = at + (side ? 1 : -1);
      const double *across = direction ? dy : dx;
      const double  length = direction ? dx[place[0]] : dy[place[1]];
      const int     inside = at != (side ? last[direction] : 0);

      other[face] = inside ? number[i + (side ? 1 : -1) * step[direction]] : -1;
      if (other[face] >= 0) entry[face] = -2.0 * length / (across[at] + across[next]);
      entry[4] += face == 1 && !inside ? 2.0 * length / across[at] : -entry[face]; /* face 1 without a neighbour is the outlet */
    }
    AddRow(&A, number[i], 5, other, entry);
  }
  free(dx);
  free(dy);
  free(number);
  return A;
}

/* Position of a point of the grid of (n+2)^3 points, in units of its distances. No tetrahedron can turn over */
static void Position(const int point[], int n, double position[])
{
  const int64_t m = n + 2, index = point[0] + m * (point[1] + m * point[2]);
  int           inner = 1;

  for (int d = 0; d < 3; d++) inner = inner && point[d] > 0 && point[d] <= n;
  for (int d = 0; d < 3; d++) position[d] = point[d] + (inner ? (2.0 * Random(3 * index + d) - 1.0) * 0.2 / sqrt(3.0) : 0.0);
}

/*
   K(i,j) = V (g_i . g_j + w . g_j / 4 + tau (w . g_i) (w . g_j)) for a tetrahedron with volume V, gradients g of the hat functions
   and wind w at its centre; tau is the value of one dimension
*/
static void Element(double position[8][3], const int path[4], int n, double K[4][4])
{
  double edge[3][3], gradient[4][3], wind[3], along[4], centre[2] = {0, 0}, volume, speed, tau;

  for (int e = 0; e < 3; e++) {
    for (int d = 0; d < 3; d++) edge[e][d] = position[path[e + 1]][d] - position[path[0]][d];
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
    for (int d = 0; d < 2; d++) centre[d] += 0.25 * position[path[i]][d] / (n + 1);
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
   Adds the tetrahedra of a cube to slots, 15 for each inner point. The corners of a cube are 0 to 7, bit d for direction d. A
   corner of a tetrahedron contains the bits of the corner before, so a point and its neighbour differ by bits m with the same sign.
   The slot of the neighbour is 7 + m or 7 - m
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
  double position[8][3], K[4][4];
  int    inner[8];

  for (int i = 0; i < 8; i++) {
    const int point[3] = {cube[0] + (i & 1), cube[1] + (i >> 1 & 1), cube[2] + (i >> 2)};

    Position(point, n, position[i]);
    inner[i] = Inner(point, n);
  }
  for (int t = 0; t < 6; t++) {
    const int *path = paths[t];

    Element(position, path, n, K);
    for (int i = 0; i < 4; i++) {
      for (int j = 0; j < 4; j++) {
        if (inner[path[i]] >= 0 && inner[path[j]] >= 0)
          slots[15 * (size_t)inner[path[i]] + (size_t)(7 + path[j] - path[i])] += K[i][j];
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
    int       columns[15];

    for (int slot = 0; slot < 15; slot++) {
      const int m = abs(slot - 7), sign = slot < 7 ? -1 : 1;
      const int other = Inner((const int[]){at[0] + sign * (m & 1), at[1] + sign * (m >> 1 & 1), at[2] + sign * (m >> 2)}, n);

      columns[slot] = other < 0 ? -1 : row[other];
    }
    AddRow(&A, i, 15, columns, slots + 15 * (size_t)point[i]);
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

/* Writes and frees the matrix, and writes random numbers in [-0.5,0.5) as the right-hand side */
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
  free(A.start);
  free(A.columns);
  free(A.values);
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
  if (n < 2 || n > (strcmp(problem, "stretched") ? 500 : 20000) || !name) { /* entries are counted in 32 bits */
    fprintf(stderr, "usage: generate -problem central|recirculating|lognormal|stretched|tetrahedra -n N -o NAME; N is 2 to 500\n");
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
