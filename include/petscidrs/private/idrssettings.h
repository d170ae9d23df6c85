/*
   Setters, getters and options of an object of the plugin. A setter or getter is one function, which begins like this:

     PetscValidHeaderSpecific(pc, PC_CLASSID, 1);
     PetscValidLogicalCollectiveInt(pc, seed, 2);
     IDRSTryData(pc, PCPOLY, poly);

   It is composed with the object by its own name and _C, for programs that load the plugin and are not linked with it
*/
#pragma once

#include <petscsys.h>

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

/* Calls the setter of an option of type PetscInt, PetscReal or PetscBool (kind Int, Real, Bool) */
#define IDRSOption(kind, object, option, text, setter, now) \
  do { \
    Petsc##kind given; \
    PetscBool   set; \
\
    PetscCall(PetscOptions##kind(option, text, #setter, now, &given, &set)); \
    if (set) PetscCall(setter(object, given)); \
  } while (0)

/* The same for an option whose value is one of these names */
#define IDRSOptionEnum(object, option, text, setter, names, now) \
  do { \
    PetscEnum given; \
    PetscBool set; \
\
    PetscCall(PetscOptionsEnum(option, text, #setter, names, (PetscEnum)(now), &given, &set)); \
    if (set) PetscCall(setter(object, (int)given)); \
  } while (0)
