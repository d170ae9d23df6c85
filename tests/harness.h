/*
   Findings of a test program. Every process counts its comparisons and prints the failed ones. One line for each subject says
   whether all comparisons on all processes held, so that one expected file serves all back ends. Expected errors are kept, not
   printed.
*/
#pragma once

#include <petscidrs.h>
#include <petscidrs/private/idrscompat.h>
#include <petscidrs/private/idrssettings.h>

#if PetscDefined(HAVE_UNISTD_H)
  #include <unistd.h>
#endif

/* In the formats of complaints */
#define INT PetscInt_FMT

/* Gets a setting of a solver of type KSPIDRS */
#define GetSetting(ksp, member, to) \
  do { \
    const KSPIDRSSettings *settings; \
\
    PetscCall(KSPIDRSGetSettings_Private(ksp, &settings)); \
    *(to) = settings->member; \
  } while (0)

/* The back end of the solves, and their tolerance: 1e-5 in single precision */
static KSPIDRSImplementation implementation = KSP_IDRS_AUTO;
static PetscReal             rtol           = PETSC_MACHINE_EPSILON > 1e-10 ? 100 * PETSC_MACHINE_EPSILON : 1e-8;

static inline PetscErrorCode ImplementationFromOptions(void)
{
  PetscEnum value = (PetscEnum)implementation;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-ksp_idrs_implementation", KSPIDRSImplementations, &value, NULL));
  implementation = (KSPIDRSImplementation)value;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Otherwise VecMDot() and VecMAXPY() round in another way if the arrays of vectors happen to follow each other in memory */
static inline PetscErrorCode RepeatSums(void)
{
  PetscFunctionBeginUser;
#if PETSC_VERSION_GE(3, 20, 0)
  PetscCall(PetscOptionsInsertString(NULL, "-vec_mdot_use_gemv 0 -vec_maxpy_use_gemv 0"));
#endif
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Findings of this process on a subject */
typedef struct {
  const char *name;
  PetscInt    made, wrong;
  const char *skipped; /* reason for skipped comparisons, or NULL */
} Check;

/* Largest number of complaints about a subject that a process prints */
#define MAX_COMPLAINTS 20

/* Counts a comparison; if it fails, prints the rest of the arguments */
static inline PetscErrorCode Expect(Check *check, PetscBool holds, const char format[], ...)
{
  PetscMPIInt rank;
  char        text[2048];
  va_list     arguments;

  PetscFunctionBeginUser;
  check->made++;
  if (holds || check->wrong++ >= MAX_COMPLAINTS) PetscFunctionReturn(PETSC_SUCCESS);
  va_start(arguments, format);
  PetscCall(PetscVSNPrintf(text, sizeof(text), format, NULL, arguments));
  va_end(arguments);
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "  [%d] %s\n", rank, text));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   Appends a skipped subject to the file that tools/run-tests names and counts. Then it prints the line of the expected output,
   which does not depend on the machine
*/
static inline PetscErrorCode TellSkipped(const Check *check)
{
  const char *const name = getenv("PETSCIDRS_SKIPPED");
  char              program[PETSC_MAX_PATH_LEN], *file;
  FILE             *skipped;

  PetscFunctionBeginUser;
  if (!name) {
    PetscCall(PetscPrintf(PETSC_COMM_SELF, "%s: skipped, %s\n", check->name, check->skipped));
    PetscFunctionReturn(PETSC_SUCCESS);
  }
  PetscCall(PetscGetProgramName(program, sizeof(program)));
  PetscCall(PetscStrrchr(program, '/', &file));
  PetscCall(PetscFOpen(PETSC_COMM_SELF, name, "a", &skipped));
  PetscCall(PetscFPrintf(PETSC_COMM_SELF, skipped, "%s, %s: %s\n", file, check->name, check->skipped));
  PetscCall(PetscFClose(PETSC_COMM_SELF, skipped));
  PetscCall(PetscPrintf(PETSC_COMM_SELF, "%s: as expected\n", check->name));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Prints one line for all processes, and resets the check. If nothing has been compared or skipped, the subject is wrong */
static inline PetscErrorCode CheckVerdict(Check *check)
{
  PetscInt    counts[2] = {check->made, check->wrong};
  PetscMPIInt rank;

  PetscFunctionBeginUser;
  IDRSCallAllreduce(MPI_IN_PLACE, counts, 2, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  if (check->skipped && !counts[1]) {
    if (!rank) PetscCall(TellSkipped(check));
  } else if (counts[0] && !counts[1]) PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: as expected\n", check->name));
  else PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: %" INT " of %" INT " comparisons wrong\n", check->name, counts[1], counts[0]));
  check->made = check->wrong = 0;
  check->skipped             = NULL;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Most programs test one subject after the other. ComplainIf(!(error <= tolerance), ...) is a comparison that fails for a NaN */
static Check findings;
#define Complain(...)          Expect(&findings, PETSC_FALSE, __VA_ARGS__)
#define ComplainIf(wrong, ...) ((wrong) ? Complain(__VA_ARGS__) : Expect(&findings, PETSC_TRUE, NULL))

/* Skips comparisons of the present subject, on all processes for the same reason */
static inline PetscErrorCode Skip(const char reason[])
{
  PetscFunctionBeginUser;
  findings.skipped = reason;
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Skips for lack of a GPU, which is wrong if the tests run on a GPU */
static inline PetscErrorCode SkipWithoutGPU(void)
{
  PetscEnum passes = (PetscEnum)KSP_IDRS_AUTO;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetEnum(NULL, NULL, "-implementation", KSPIDRSImplementations, &passes, NULL));
  PetscCall(ComplainIf(passes == (PetscEnum)KSP_IDRS_CUDA, "skipped, although there is a GPU"));
  PetscCall(Skip("there is no GPU"));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode Verdict(const char subject[])
{
  PetscFunctionBeginUser;
  findings.name = subject;
  PetscCall(CheckVerdict(&findings));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* A test, and the subject of its verdict, or NULL if it prints its own verdicts */
typedef struct {
  PetscErrorCode (*run)(void);
  const char *subject;
} TestCase;

/* The main program, which runs tests one after the other */
#define RUN_TESTS(...) \
  int main(int argc, char **argv) \
  { \
    const TestCase tests[] = {__VA_ARGS__}; \
\
    PetscFunctionBeginUser; \
    PetscCall(PetscInitialize(&argc, &argv, NULL, help)); \
    PetscCall(ImplementationFromOptions()); \
    for (size_t test = 0; test < PETSC_STATIC_ARRAY_LENGTH(tests); test++) { \
      PetscCall((*tests[test].run)()); \
      if (tests[test].subject) PetscCall(Verdict(tests[test].subject)); \
    } \
    PetscCall(PetscFinalize()); \
    return 0; \
  }

/* The first message of an error. Calls that may fail are between Listen() and Heard(), and not inside PetscCall() */
static char message[2048];

static inline PetscErrorCode Record(MPI_Comm comm, int line, const char *function, const char *file, PetscErrorCode code,
                                    PetscErrorType type, const char *text, void *ctx)
{
  if (type == PETSC_ERROR_INITIAL) (void)PetscStrncpy(message, text ? text : "", sizeof(message));
  return code;
}

static inline PetscErrorCode Listen(void)
{
  PetscFunctionBeginUser;
  message[0] = '\0';
  PetscCall(PetscPushErrorHandler(Record, NULL));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode Heard(void)
{
  PetscFunctionBeginUser;
  PetscCall(PetscPopErrorHandler());
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Checks that there was an error whose message names the setting and its value */
static inline PetscErrorCode CheckError(PetscErrorCode ierr, const char what[], const char setting[], const char value[])
{
  char *named, *valued;

  PetscFunctionBeginUser;
  PetscCall(PetscStrstr(message, setting, &named));
  PetscCall(PetscStrstr(message, value, &valued));
  PetscCall(ComplainIf(!ierr || !named || !valued, "%s: error code %d, and the message should name %s and %s: \"%s\"", what,
                       (int)ierr, setting, value, message));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Keeps the error of a call, and its message */
#define Try(ierr, call) \
  do { \
    PetscCall(Listen()); \
    ierr = call; \
    PetscCall(Heard()); \
  } while (0)

/* Checks that the call is an error whose message has these words */
#define CheckRefused(call, name, value) \
  do { \
    PetscErrorCode refused; \
\
    Try(refused, call); \
    PetscCall(CheckError(refused, #call, name, value)); \
  } while (0)

/* Checks ||x - y|| <= tolerance ||y|| */
static inline PetscErrorCode CheckClose(const char what[], Vec x, Vec y, PetscReal tolerance)
{
  PetscReal norm, error;
  Vec       d;

  PetscFunctionBeginUser;
  PetscCall(VecDuplicate(y, &d));
  PetscCall(VecCopy(x, d));
  PetscCall(VecAXPY(d, -1.0, y));
  PetscCall(VecNorm(d, NORM_2, &error));
  PetscCall(VecNorm(y, NORM_2, &norm));
  PetscCall(ComplainIf(!(error <= tolerance * norm), "%s: a difference of %g, the norm is %g", what, (double)error, (double)norm));
  PetscCall(VecDestroy(&d));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Destroys objects of any kinds, in this order */
#define DestroyAll(...) DestroyObjects((void *[]){__VA_ARGS__, NULL})

static inline PetscErrorCode DestroyObjects(void *objects[])
{
  PetscFunctionBeginUser;
  for (; *objects; objects++) PetscCall(PetscObjectDestroy((PetscObject *)*objects));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates duplicates of a vector */
#define DuplicateAll(like, ...) DuplicateVecs(like, (Vec *[]){__VA_ARGS__, NULL})

static inline PetscErrorCode DuplicateVecs(Vec like, Vec *vecs[])
{
  PetscFunctionBeginUser;
  for (; *vecs; vecs++) PetscCall(VecDuplicate(like, *vecs));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode RankAndSize(PetscMPIInt *rank, PetscMPIInt *size)
{
  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, rank));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, size));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Resets a solver, as PETSc requires after an error, or for a matrix of another size */
static inline PetscErrorCode ResetWith(KSP ksp, Mat A)
{
  PetscFunctionBeginUser;
  PetscCall(KSPReset(ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode MatAssemble(Mat A)
{
  PetscFunctionBeginUser;
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode VecAssemble(Vec x)
{
  PetscFunctionBeginUser;
  PetscCall(VecAssemblyBegin(x));
  PetscCall(VecAssemblyEnd(x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Creates a square matrix of the type of the options, with room for so many entries in each row, or more */
static inline PetscErrorCode MatCreateRows(MPI_Comm comm, PetscInt n, PetscInt N, PetscInt entries, Mat *A)
{
  PetscFunctionBeginUser;
  PetscCall(MatCreate(comm, A));
  PetscCall(MatSetSizes(*A, n, n, N, N));
  PetscCall(MatSetType(*A, MATAIJ));
  PetscCall(MatSetFromOptions(*A));
  PetscCall(MatSeqAIJSetPreallocation(*A, entries, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*A, entries, NULL, entries, NULL));
  PetscCall(MatSetOption(*A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Gathers all entries of a vector on all processes */
static inline PetscErrorCode GatherCreate(Vec u, Vec *all)
{
  VecScatter scatter;

  PetscFunctionBeginUser;
  PetscCall(VecScatterCreateToAll(u, &scatter, all));
  PetscCall(VecScatterBegin(scatter, u, *all, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecScatterEnd(scatter, u, *all, INSERT_VALUES, SCATTER_FORWARD));
  PetscCall(VecScatterDestroy(&scatter));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Pushes an options database of its own; OptionsPop() removes it */
static inline PetscErrorCode OptionsPush(const char text[], PetscOptions *options)
{
  PetscFunctionBeginUser;
  PetscCall(PetscOptionsCreate(options));
  PetscCall(PetscOptionsPush(*options));
  PetscCall(PetscOptionsInsertString(*options, text));
  PetscFunctionReturn(PETSC_SUCCESS);
}

static inline PetscErrorCode OptionsPop(PetscOptions *options)
{
  PetscFunctionBeginUser;
  PetscCall(PetscOptionsPop());
  PetscCall(PetscOptionsDestroy(options));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Unlocks a vector: after an error PETSc keeps the vectors of the failed call locked */
static inline PetscErrorCode Unlock(Vec x)
{
  PetscBool nest;
  PetscInt  locks, parts = 0;
  Vec      *part = NULL;

  PetscFunctionBeginUser;
  PetscCall(PetscObjectTypeCompare((PetscObject)x, VECNEST, &nest));
  if (nest) PetscCall(VecNestGetSubVecs(x, &parts, &part));
  for (PetscInt i = 0; i < parts; i++) PetscCall(Unlock(part[i]));
  PetscCall(VecLockGet(x, &locks));
  for (; locks > 0; locks--) PetscCall(VecLockReadPop(x));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   True if PETSc compares the arguments and reductions of all processes, with debugging: then an error on one process, or vectors
   that are bound to the CPU on one process, would end the others with an error of PETSc
*/
static inline PetscBool ComparesProcesses(PetscMPIInt size)
{
  return (PetscBool)(PetscDefined(USE_DEBUG) && size > 1);
}
#define COMPARES_PROCESSES "a PETSc with debugging compares what the processes do"

/*
   Returns the calls of MPI_Allreduce() by PETSc so far; 0 if PETSc does not count them or, with debugging, makes other calls as
   well
*/
static inline PetscLogDouble Allreduces(void)
{
#if PetscDefined(USE_LOG)
  return PetscDefined(USE_DEBUG) ? 0 : petsc_allreduce_ct;
#else
  return 0;
#endif
}

/* Ends a program that hangs before PETSc's harness does, which waits for TIMEOUT seconds, by default 300 */
static inline void EndAfter(unsigned int seconds)
{
#if PetscDefined(HAVE_UNISTD_H)
  const char *timeout = getenv("TIMEOUT");

  alarm(timeout ? (unsigned int)(seconds * atof(timeout) / 300) : seconds);
#endif
}

/*
   Tests read views and logs by keys, which are words with the meaning, so that sentences may be rewritten. A key is a text in the
   line, or several texts in their order with " ... " between them. FindKey() returns the rest of the line after the last text, or
   NULL.

   Keys of -ksp_view in the tests; # is a number before or behind them:

     "one by one: ... <reason>"     "# right-hand sides ... at the same time"     "smallest # ... median # ... largest #"
     "block recurrences: ... coefficients"     "block recurrences: ... on the device"     "independent residuals"
     "# of them ... without a block recurrence: ... <reason>"     "no reliable updating"     "last solve: ... verifications, #"
     "run stepwise|persistent ... automatically"     "no faster one: ... <reason>"     "matvecs ... operations in # kernels, where"
     "entries ... GPU to GPU"     "reductions by <queue>"     "copied ... of Amat <what>;"     "inexact"
     in detail "<pass> ... # calls ... # vectors ... # bytes"

   Of -info: "Breakdown ... iteration #".
   For errors tests check the option or function and the value, by CheckError().
*/
static inline const char *FindKey(const char line[], const char key[])
{
  const char gap[] = " ... ";

  while (line) {
    const char  *end    = strstr(key, gap);
    const size_t length = end ? (size_t)(end - key) : strlen(key);

    while (*line && strncmp(line, key, length)) line++;
    if (!*line && length) return NULL;
    line += length;
    if (!end) return line;
    key = end + strlen(gap);
  }
  return NULL;
}

/*
   Counts the lines with this key in a file that a viewer has written on the first process, and reads the numbers behind it; removes
   the file
*/
static inline PetscErrorCode FileNumbers(const char file[], const char key[], PetscInt max, PetscReal numbers[], PetscInt *lines)
{
  PetscMPIInt rank;

  PetscFunctionBeginUser;
  *lines = 0;
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  if (!rank) {
    FILE *f = fopen(file, "r");
    char  line[2048];

    while (f && fgets(line, sizeof(line), f)) {
      const char *place  = FindKey(line, key);
      double      number = -1.0;

      if (!place) continue;
      (void)sscanf(place, "%lf", &number);
      if (*lines < max) numbers[*lines] = (PetscReal)number;
      (*lines)++;
    }
    if (f) fclose(f);
    (void)remove(file);
  }
  PetscCallMPI(MPI_Bcast(lines, 1, MPIU_INT, 0, PETSC_COMM_WORLD));
  PetscCallMPI(MPI_Bcast(numbers, (PetscMPIInt)max, MPIU_REAL, 0, PETSC_COMM_WORLD));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Counts the lines with this key in the view of an object, and reads the numbers behind it */
static inline PetscErrorCode FormatNumbers(PetscObject object, PetscViewerFormat format, const char key[], PetscInt max,
                                           PetscReal numbers[], PetscInt *lines)
{
  const char  file[] = "view_numbers.txt";
  PetscViewer viewer;

  PetscFunctionBeginUser;
  PetscCall(PetscViewerASCIIOpen(PETSC_COMM_WORLD, file, &viewer));
  PetscCall(PetscViewerPushFormat(viewer, format));
  PetscCall(PetscObjectView(object, viewer));
  PetscCall(PetscViewerPopFormat(viewer));
  PetscCall(PetscViewerDestroy(&viewer));
  PetscCall(FileNumbers(file, key, max, numbers, lines));
  PetscFunctionReturn(PETSC_SUCCESS);
}

#define ViewNumbers(object, ...)   FormatNumbers(object, PETSC_VIEWER_DEFAULT, __VA_ARGS__)
#define DetailNumbers(object, ...) FormatNumbers(object, PETSC_VIEWER_ASCII_INFO_DETAIL, __VA_ARGS__)

/* Checks the number of lines with this key in the view of an object */
static inline PetscErrorCode CheckObjectView(PetscObject object, const char key[], PetscInt expected)
{
  PetscInt lines;

  PetscFunctionBeginUser;
  PetscCall(ViewNumbers(object, key, 0, NULL, &lines));
  PetscCall(ComplainIf(lines != expected, "%" INT " lines of the view of %s have the text \"%s\", not %" INT, lines,
                       object->type_name, key, expected));
  PetscFunctionReturn(PETSC_SUCCESS);
}
#define CheckView(object, ...) CheckObjectView((PetscObject)(object), __VA_ARGS__)

/* Checks that the view of an object has no trailing blanks, and that inside other views each of its lines is indented once */
static inline PetscErrorCode CheckViewLines(const char what[], PetscObject object)
{
  const char *const files[] = {"view.txt", "nested.txt"};
  const PetscInt    tabs    = 3;
  PetscMPIInt       rank;

  PetscFunctionBeginUser;
  PetscCallMPI(MPI_Comm_rank(PetscObjectComm(object), &rank));
  for (PetscInt nested = 0; nested < 2; nested++) {
    PetscViewer viewer;

    PetscCall(PetscViewerASCIIOpen(PetscObjectComm(object), files[nested], &viewer));
    for (PetscInt t = 0; t < nested * tabs; t++) PetscCall(PetscViewerASCIIPushTab(viewer));
    PetscCall(PetscObjectView(object, viewer));
    for (PetscInt t = 0; t < nested * tabs; t++) PetscCall(PetscViewerASCIIPopTab(viewer));
    PetscCall(PetscViewerDestroy(&viewer));
  }
  if (!rank) {
    FILE *f[2] = {fopen(files[0], "r"), fopen(files[1], "r")};
    char  lines[2][2048];

    while (f[0] && f[1] && fgets(lines[0], sizeof(lines[0]), f[0])) {
      const size_t length = strcspn(lines[0], "\n");

      if (!fgets(lines[1], sizeof(lines[1]), f[1])) lines[1][0] = '\0';
      PetscCall(ComplainIf(length && lines[0][length - 1] == ' ', "%s: trailing blanks in \"%s\"", what, lines[0]));
      PetscCall(
        ComplainIf(strspn(lines[1], " ") != 2 * (size_t)tabs + strspn(lines[0], " ") || strcmp(lines[1] + 2 * tabs, lines[0]),
                   "%s: \"%s\" inside another view is \"%s\"", what, lines[0], lines[1]));
    }
    for (PetscInt nested = 0; nested < 2; nested++) {
      if (f[nested]) fclose(f[nested]);
      (void)remove(files[nested]);
    }
  }
  PetscFunctionReturn(PETSC_SUCCESS);
}

/* Replaces the numbers of the list by the numbers of this option, if it is set */
static inline PetscErrorCode ListFromOptions(const char option[], PetscInt most, PetscInt list[], PetscInt *length)
{
  PetscInt  count = most;
  PetscBool set;

  PetscFunctionBeginUser;
  PetscCall(PetscOptionsGetIntArray(NULL, NULL, option, list, &count, &set));
  if (set) *length = count;
  PetscFunctionReturn(PETSC_SUCCESS);
}
