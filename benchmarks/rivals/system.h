/*
   Common part of the programs of this directory. It reads a system, takes the times, computes the true residual on the host, and
   prints the result. A program supplies the functions of its solver in a Rival. With SYSTEM_HOST the header needs no CUDA.
*/
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if !defined(SYSTEM_HOST)
  #include <cuda_runtime.h>
#endif

#define SYSTEM_TOLERANCE  1e-8 /* relative residual of a solution. -ksp_rtol may ask the solver for less */
#define SYSTEM_ITERATIONS 5000 /* most iterations of a solve */
#define SYSTEM_REPEAT     7    /* set-ups for new values, each with a solve */
#define SYSTEM_SECONDS    5.0  /* limit for all of these together: a slow solver is repeated less often */

typedef struct {
  int     rows, nonzeros, *start, *columns; /* compressed rows, columns from 0 */
  double *values, *b;
} System;

/*
   A solver. All functions return 0, or an error code. The matrix and b are on the device before setup() is called. newvalues() puts
   the values of the matrix into the same pattern once more and drops what update() computes again; its time does not count.
   solve() starts from x = 0.
*/
typedef struct {
  const char *name, *setting;
  int (*setup)(void *); /* set-up of the first solve */
  int (*newvalues)(void *);
  int (*update)(void *); /* set-up for the new values */
  int (*solve)(void *);
  int (*finish)(void *, double x[], int *iterations, int *converged); /* copies x to the host */
  void *data;
} Rival;

/* Returns the value of an option of the command line */
static inline const char *SystemOption(int argc, char **argv, const char *option, const char *otherwise)
{
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], option)) return argv[i + 1];
  }
  return otherwise;
}

/* Returns the relative residual that a solver is asked for; all programs use the name of PETSc's option */
static inline double SystemTolerance(int argc, char **argv)
{
  const char *value = SystemOption(argc, argv, "-ksp_rtol", NULL);

  return value ? atof(value) : SYSTEM_TOLERANCE;
}

static inline int SystemError(const char *what, const char *which)
{
  fprintf(stderr, "%s: %s\n", which, what);
  return 1;
}

static inline int SystemFailed(const char *call, int code)
{
  fprintf(stderr, "%s returns %d\n", call, code);
  return code;
}

/* Returns from a function of a Rival with the error code of a library */
#define SystemCheck(call) \
  do { \
    const int code_ = (int)(call); \
    if (code_) return SystemFailed(#call, code_); \
  } while (0)

#if !defined(SYSTEM_HOST)
/* Copies an array to new memory of the device */
static inline int SystemCopy(void *device, const void *host, size_t bytes)
{
  SystemCheck(cudaMalloc((void **)device, bytes));
  SystemCheck(cudaMemcpy(*(void **)device, host, bytes, cudaMemcpyHostToDevice));
  return 0;
}
#endif

/* Reads 4-byte or 8-byte numbers, most significant byte first */
static inline int SystemReadNumbers(FILE *file, size_t bytes, size_t count, void *numbers)
{
  if (fread(numbers, bytes, count, file) != count) return 1;
  for (size_t i = 0; i < count; i++) {
    if (bytes == 4) ((uint32_t *)numbers)[i] = __builtin_bswap32(((uint32_t *)numbers)[i]);
    else ((uint64_t *)numbers)[i] = __builtin_bswap64(((uint64_t *)numbers)[i]);
  }
  return 0;
}

static inline int SystemReadMatrix(FILE *file, System *system)
{
  int head[4];

  if (SystemReadNumbers(file, 4, 4, head) || head[0] != 1211216) return 1;
  if (head[1] <= 0 || head[1] != head[2] || head[3] <= 0) return 1;
  system->rows     = head[1];
  system->nonzeros = head[3];
  system->start    = (int *)malloc(sizeof(int) * ((size_t)head[1] + 1));
  system->columns  = (int *)malloc(sizeof(int) * (size_t)head[3]);
  system->values   = (double *)malloc(sizeof(double) * (size_t)head[3]);
  system->b        = (double *)calloc((size_t)head[1], sizeof(double));
  if (!system->start || !system->columns || !system->values || !system->b) return 1;
  system->start[0] = 0;
  if (SystemReadNumbers(file, 4, (size_t)head[1], system->start + 1)) return 1;
  for (int i = 0; i < head[1]; i++) system->start[i + 1] += system->start[i];
  if (system->start[head[1]] != head[3]) return 1;
  if (SystemReadNumbers(file, 4, (size_t)head[3], system->columns)) return 1;
  if (SystemReadNumbers(file, 8, (size_t)head[3], system->values)) return 1;
  return fgetc(file) != EOF; /* the values of a complex matrix are twice as long */
}

/* y = A x */
static inline void SystemMult(const System *system, const double x[], double y[])
{
  for (int i = 0; i < system->rows; i++) {
    y[i] = 0;
    for (int k = system->start[i]; k < system->start[i + 1]; k++) y[i] += system->values[k] * x[system->columns[k]];
  }
}

/* Reads the options -f matrix and -b right-hand side; without -b the right-hand side is A times a smooth vector */
static inline int SystemRead(int argc, char **argv, System *system)
{
  const char *name = SystemOption(argc, argv, "-f", NULL), *bname = SystemOption(argc, argv, "-b", NULL);
  FILE       *file;
  int         failed, head[2];

  if (!name) return SystemError("give a matrix with -f FILE", argv[0]);
  if (!(file = fopen(name, "rb"))) return SystemError("cannot be opened", name);
  failed = SystemReadMatrix(file, system);
  fclose(file);
  if (failed) return SystemError("is no square real matrix in PETSc's binary format with 32-bit integers", name);
  if (bname) {
    if (!(file = fopen(bname, "rb"))) return SystemError("cannot be opened", bname);
    failed = SystemReadNumbers(file, 4, 2, head) || head[0] != 1211214 || head[1] != system->rows ||
             SystemReadNumbers(file, 8, (size_t)system->rows, system->b);
    fclose(file);
    if (failed) return SystemError("is no real vector of the length of the matrix", bname);
  } else {
    double *x = (double *)malloc(sizeof(double) * (size_t)system->rows);

    if (!x) return SystemError("not enough memory", name);
    for (int i = 0; i < system->rows; i++) x[i] = 1.0 + 0.5 * sin(6.283185307179586 * i / system->rows);
    SystemMult(system, x, system->b);
    free(x);
  }
  return 0;
}

/* Returns |b - A x| / |b| */
static inline double SystemResidual(const System *system, const double x[])
{
  double *y = (double *)malloc(sizeof(double) * (size_t)system->rows), r = 0, b = 0;

  if (!y) return NAN;
  SystemMult(system, x, y);
  for (int i = 0; i < system->rows; i++) {
    r += (system->b[i] - y[i]) * (system->b[i] - y[i]);
    b += system->b[i] * system->b[i];
  }
  free(y);
  return sqrt(r / b);
}

/* Returns the wall time in ms. It waits for the device first, because the host does not wait for the kernels that it launches */
static inline double SystemTime(void)
{
  struct timespec now;

#if !defined(SYSTEM_HOST)
  (void)cudaDeviceSynchronize();
#endif
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* Returns the memory of the device that is in use, in MB; 0 if there is no device. The first call creates the CUDA context */
static inline double SystemMemory(void)
{
#if !defined(SYSTEM_HOST)
  size_t available, total;

  if (cudaFree(NULL) == cudaSuccess && cudaMemGetInfo(&available, &total) == cudaSuccess) return 1e-6 * (double)(total - available);
#endif
  return 0.0;
}

static inline int SystemCompare(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

static inline double SystemMedian(int count, double times[])
{
  qsort(times, (size_t)count, sizeof(double), SystemCompare);
  return times[count / 2];
}

/*
   Runs a solver and prints the result: times in ms, memory in MB. first is the set-up and the solve of the first call of the
   process, setup its set-up; new is the set-up for new values in the same pattern. before is the device memory in use before the
   library and the matrix were there. If the solver returns an error, the status is failed and the residual is not computed
*/
static inline int SystemRun(int argc, char **argv, const System *system, const Rival *rival, double before)
{
  const char *path = SystemOption(argc, argv, "-f", ""), *slash = strrchr(path, '/'), *status = "failed";
  double      begin, middle, end, first, setup, newtime = 0, solve = 0, updates[SYSTEM_REPEAT], solves[SYSTEM_REPEAT], memory = 0,
                                           spent = 0;
  double *x = (double *)calloc((size_t)system->rows, sizeof(double)), residual = NAN;
  int     count = 0, error, iterations = 0, converged = 0;
  char    name[256];

  snprintf(name, sizeof(name), "%.*s", (int)strcspn(slash ? slash + 1 : path, "."), slash ? slash + 1 : path);
  begin  = SystemTime();
  error  = rival->setup(rival->data);
  middle = SystemTime();
  if (!error) error = rival->solve(rival->data);
  end   = SystemTime();
  first = end - begin;
  setup = middle - begin;
  while (!error && count < SYSTEM_REPEAT && (!count || spent + first < 1e3 * SYSTEM_SECONDS)) {
    error = rival->newvalues(rival->data);
    begin = SystemTime();
    if (!error) error = rival->update(rival->data);
    middle = SystemTime();
    if (!error) error = rival->solve(rival->data);
    end            = SystemTime();
    updates[count] = middle - begin;
    solves[count]  = end - middle;
    spent += end - begin;
    count++;
  }
  if (count) {
    newtime = SystemMedian(count, updates);
    solve   = SystemMedian(count, solves);
  }
  memory = SystemMemory() - before;
  if (!error) error = x ? rival->finish(rival->data, x, &iterations, &converged) : 1;
#if !defined(SYSTEM_HOST)
  /* a failed kernel gives an error in a later call; without a device there is nothing to ask */
  if (before > 0 && cudaDeviceSynchronize() != cudaSuccess) error = 1;
#endif
  if (!error) {
    residual = SystemResidual(system, x);
    if (residual <= 1.1 * SYSTEM_TOLERANCE) status = "ok";
    else if (residual <= 1e-6) status = "near";
    else if (converged) status = "wrong";
  }
  printf("rival=%s setting=%s system=%s rows=%d nonzeros=%d iterations=%d first=%.3f setup=%.3f new=%.3f solve=%.3f memory=%.0f "
         "residual=%.2e status=%s\n",
         rival->name, rival->setting, name, system->rows, system->nonzeros, iterations, first, setup, newtime, solve, memory,
         residual, status);
  fflush(stdout);
  free(x);
  return error;
}
