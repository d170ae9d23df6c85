/*
   Setters, getters and options of an object of the plugin. A setter or getter is one function, which begins like this:

     PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
     PetscValidLogicalCollectiveInt(pc, seed, 2);
     IDRSTryData(pc, PCPOLY, poly);

   A public one is composed with the object by its own name and _C, for programs that load the plugin and are not linked with it.
   The others, below, are for options and tests
*/
#pragma once

#include <petscidrs.h>

/* The prefix of the options of an object, for errors that name an option */
#define IDRSPrefix(object) (((PetscObject)(object))->prefix ? ((PetscObject)(object))->prefix : "")

/*
   In a setter: gets the data of an object of this type. If the object has another type, the setter ends, as with PetscTryMethod()
*/
#define IDRSTryData(object, type, to) \
  do { \
    PetscBool same; \
\
    PetscCall(PetscObjectTypeCompare((PetscObject)(object), type, &same)); \
    if (!same) PetscFunctionReturn(PETSC_SUCCESS); \
    (to) = (object)->data; \
  } while (0)

/* In a getter: the same, but another type is an error, as with PetscUseMethod() */
#define IDRSUseData(object, type, to) \
  do { \
    PetscBool same; \
\
    PetscCall(PetscObjectTypeCompare((PetscObject)(object), type, &same)); \
    PetscCheck(same, PetscObjectComm((PetscObject)(object)), PETSC_ERR_SUP, "%s(): the type must be %s", PETSC_FUNCTION_NAME, \
               type); \
    (to) = (object)->data; \
  } while (0)

/* Composes a function with the object, or removes it */
#define IDRSCompose(object, compose, function) \
  PetscCall(PetscObjectComposeFunction((PetscObject)(object), #function "_C", (compose) ? (function) : NULL))

/* Returns the manual page of a setter for -help */
static inline const char *IDRSManual(const char setter[])
{
  return strstr(setter, "_Private") ? "None" : setter;
}

/* Calls the setter of an option of type PetscInt, PetscReal or PetscBool (kind Int, Real, Bool) */
#define IDRSOption(kind, object, option, text, setter, now) \
  do { \
    Petsc##kind given; \
    PetscBool   set; \
\
    PetscCall(PetscOptions##kind(option, text, IDRSManual(#setter), now, &given, &set)); \
    if (set) PetscCall(setter(object, given)); \
  } while (0)

/* The same for an option whose value is one of these names */
#define IDRSOptionEnum(object, option, text, setter, names, now) \
  do { \
    PetscEnum given; \
    PetscBool set; \
\
    PetscCall(PetscOptionsEnum(option, text, IDRSManual(#setter), names, (PetscEnum)(now), &given, &set)); \
    if (set) PetscCall(setter(object, (int)given)); \
  } while (0)

/* The back end of the vector operations */
typedef enum {
  KSP_IDRS_AUTO,
  KSP_IDRS_VEC,
  KSP_IDRS_CUDA
} KSPIDRSImplementation;
PETSC_EXTERN const char *const KSPIDRSImplementations[];

/* The communication of the reductions between GPUs: mapped memory if each process has its own GPU, else NCCL if the scatter of the
   operator uses it, else MPI */
typedef enum {
  KSP_IDRS_COMMUNICATION_AUTO,
  KSP_IDRS_COMMUNICATION_MPI,
  KSP_IDRS_COMMUNICATION_NCCL,
  KSP_IDRS_COMMUNICATION_PEER
} KSPIDRSCommunication;
PETSC_EXTERN const char *const KSPIDRSCommunications[];

/* The back end of the matvecs: sell, csr, or MatMult() */
typedef enum {
  KSP_IDRS_PRODUCT_AUTO,
  KSP_IDRS_PRODUCT_MAT,
  KSP_IDRS_PRODUCT_CSR,
  KSP_IDRS_PRODUCT_SELL
} KSPIDRSProduct;
PETSC_EXTERN const char *const KSPIDRSProducts[];

/* The iterations: step by step, or many steps in one kernel */
typedef enum {
  KSP_IDRS_RUN_AUTO,
  KSP_IDRS_RUN_STEPWISE,
  KSP_IDRS_RUN_PERSISTENT
} KSPIDRSRun;
PETSC_EXTERN const char *const KSPIDRSRuns[];

/* Settings of the user */
typedef struct {
  PetscInt              s;              /* columns of the shadow space and of the bases */
  PetscInt              seed;           /* of the hashed shadow space */
  PetscReal             cosine;         /* omega is enlarged if the cosine of the angle of A r and r is smaller */
  PetscReal             updatetol;      /* fall of the residual norm between reliable updates; 0 for none */
  PetscInt              maxrestarts;    /* consecutive restarts after breakdowns without progress */
  KSPIDRSImplementation implementation; /* of the passes */
  KSPIDRSCommunication  communication;  /* of the reductions */
  KSPIDRSProduct        product;        /* what computes the matvecs */
  KSPIDRSRun            run;            /* what runs the recurrence */
  KSPIDRSRecycle        recycle;        /* when a solve begins with the bases of the solve before */
  PetscInt              width;          /* simultaneous right-hand sides of KSPMatSolve() */
  PetscBool             block;          /* one block recurrence for these */
  PetscBool             smoothing;      /* of the residual */
  Vec                  *P;              /* s explicit shadow vectors, or NULL */
} KSPIDRSSettings;

PETSC_EXTERN PetscErrorCode KSPIDRSGetSettings_Private(KSP, const KSPIDRSSettings **);
/* Setters of options that no program needs to set */
PETSC_EXTERN PetscErrorCode KSPIDRSSetMaxRestarts_Private(KSP, PetscInt);
PETSC_EXTERN PetscErrorCode KSPIDRSSetImplementation_Private(KSP, KSPIDRSImplementation);
PETSC_EXTERN PetscErrorCode KSPIDRSSetCommunication_Private(KSP, KSPIDRSCommunication);
PETSC_EXTERN PetscErrorCode KSPIDRSSetProduct_Private(KSP, KSPIDRSProduct);
PETSC_EXTERN PetscErrorCode KSPIDRSSetRun_Private(KSP, KSPIDRSRun);
PETSC_EXTERN PetscErrorCode KSPIDRSSetWidth_Private(KSP, PetscInt);
