# libpetscidrs: the Krylov solver IDR(s) for PETSc, as a plugin
#
#   make demo          find or install PETSc, build the plugin, solve a real system with it
#   make test          build and run the test suite; TESTS='tests-ops_shadow%' for some of it
#   make               build the plugin for the PETSc of PETSC_DIR and PETSC_ARCH, or of pkg-config
#   make plugin-path   print where it is
#   make install       to PREFIX (/usr/local), below DESTDIR if set
#   make deb           a Debian package, for the PETSc of the distribution, in build/deb
#   make petsc         build PETSc from its source package, in a cache directory; see tools/build-petsc
#   make advise        which solver and preconditioner for MATRIX=file [RHS=file], see tools/advise
#   make bench         run the benchmarks
#   make scaling       time the solvers on more and more processes
#   make tutorials     compile the tutorials in C
#   make programs      run PETSc's own programs with the plugin, and with bcgs beside it
#   make petsc-suite   run all of PETSc's own tests of KSP with the plugin, and with bcgs and idr beside it
#   make objects       compile only, which a PETSc that has been configured but not built is enough for
#   make coverage      the lines that the test suite runs, and those it does not
#   make sanitize      the programs of the test suite with AddressSanitizer and UndefinedBehaviorSanitizer
#   make valgrind      the programs of the test suite in valgrind
#   make memcheck      the programs of the test suite on the GPU, in compute-sanitizer; also make racecheck
#   make test-types    the programs of the test suite with 64-bit integers and single precision, see tools/test-types
#   make check-source  format and source checks
#   make nightly       the checks that take hours, see tools/nightly
#   make docs          the manual pages for a browser, in build/docs
#   make clean         remove what was built for this PETSc; make distclean for all
#   make help          print this
#
# Settings: PETSC_DIR, PETSC_ARCH, CFLAGS, NCCL (-lnccl where it is found), PREFIX, LIBDIR (PREFIX/lib), DESTDIR; V=1 shows the commands of compiler and linker

SHELL   := /bin/bash
VERSION := $(shell sed -n 's/^\#define PETSCIDRS_VERSION_[A-Z]* *//p' include/petscidrs.h | paste -sd .)
SONAME  := libpetscidrs.so.$(basename $(VERSION))
PREFIX  ?= /usr/local

ifneq ($(words $(CURDIR) $(PETSC_DIR)),$(if $(PETSC_DIR),2,1))
  $(error The path of this directory and PETSC_DIR must not contain blanks)
endif

# Which PETSc
found := $(shell PETSC_DIR='$(PETSC_DIR)' PETSC_ARCH='$(PETSC_ARCH)' CUDA='$(CUDA)' tools/find-petsc 2>/dev/null)
ifneq ($(found),)
  ifeq ($(PETSC_DIR),)
    PETSC_DIR  := $(patsubst PETSC_DIR=%,%,$(filter PETSC_DIR=%,$(found)))
    PETSC_ARCH :=
  endif
  # PETSc's variables, which know compilers, flags and libraries; CFLAGS stay ours
  ours := $(CFLAGS)
  include $(PETSC_DIR)/lib/petsc/conf/variables
  CFLAGS  := $(if $(ours),$(ours),-O3 -g -Wall)
  # Debian's makefiles name no run path. That of its PETSc with debugging is not where the loader looks, and where it does is another of that name
  ifeq ($(CC_LINKER_SLFLAG),-L)
    ifeq ($(dir $(realpath $(PETSC_LIB_DIR)/$(patsubst -l%,lib%.so,$(firstword $(PETSC_LIB_BASIC))))),$(realpath $(PETSC_LIB_DIR))/)
      runpath := -Wl,-rpath,$(PETSC_LIB_DIR)
    endif
  endif
  libpetsc = $(C_SH_LIB_PATH) $(runpath) -L$(PETSC_LIB_DIR) $(PETSC_LIB_BASIC) -lm
  petsc    = PETSC_DIR=$(PETSC_DIR) PETSC_ARCH=$(PETSC_ARCH)
endif
.DEFAULT_GOAL := all
# A function that this PETSc does not have is an error when the plugin is compiled, not when it is loaded
IDRS_CFLAGS := -Werror=implicit-function-declaration
quiet = $(if $(V),$(1),@printf '%12s %s\n' '$(2)' '$(@:$(CURDIR)/%=%)'; $(1))

# One directory for each PETSc, named after it
BUILD  := $(CURDIR)/build/$(patsubst _%,%,$(subst /,_,$(abspath $(PETSC_DIR))$(addprefix /,$(PETSC_ARCH))))
PLUGIN := $(BUILD)/libpetscidrs.so

sources := $(sort $(shell find src -name "*.c"))
# CUDA where this PETSc was built with it and is not older than idrscompat.h says: nvcc compiles, the C compiler links
ifneq ($(CUDA_LIB),)
  ifneq ($(shell grep -E 'PETSC_VERSION_MINOR +1[89]$$' $(PETSC_DIR)/include/petscversion.h),)
    remark := Without back end cuda and -sf_type nccl, which need PETSc 3.20 or newer
  else
    sources  += $(sort $(shell find src -name "*.cu"))
    cudalibs := $(filter -L% -Wl% -lcudart,$(CUDA_LIB))
    # NCCL where the compilers find it; NCCL= (nothing) for none
    NCCL     ?= $(shell echo '\#include <nccl.h>' | $(CC) $(PETSC_CCPPFLAGS) -E -x c - >/dev/null 2>&1 && echo 'int main(void){return 0;}' | $(CC) -x c - $(cudalibs) -lnccl -o /dev/null 2>/dev/null && echo -lnccl)
    ifneq ($(NCCL),)
      CUDAFLAGS += -DPETSCIDRS_HAVE_NCCL
      cudalibs  += $(NCCL)
    endif
  endif
endif
objects := $(patsubst %,$(BUILD)/obj/%.o,$(basename $(sources)))

# The fused loops: vectorised reductions where they are marked, and, where the compiler knows it, complex products without
# a detour for infinities
$(BUILD)/obj/src/vec/host/%.o: IDRS_CFLAGS += -fopenmp-simd $(shell $(CC) -fcx-limited-range -x c -c /dev/null -o /dev/null 2>/dev/null && echo -fcx-limited-range)

ifneq ($(found),)
all: $(PLUGIN)
objects: $(objects)
else
all objects:
	@tools/find-petsc
endif

$(PLUGIN): $(objects)
	$(call quiet,$(CC),LINK) -shared $(CFLAGS) $(LDFLAGS) -Wl,-soname,$(SONAME) -Wl,-z,nodelete -o $(BUILD)/libpetscidrs.so.$(VERSION) $^ $(libpetsc) $(cudalibs)
	@ln -sf libpetscidrs.so.$(VERSION) $(BUILD)/$(SONAME)
	@ln -sf $(SONAME) $@
	@$(if $(remark),echo '$(remark)',:)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call quiet,$(CC),CC) $(CFLAGS) -fPIC -fvisibility=hidden $(IDRS_CFLAGS) -Iinclude $(PETSC_CCPPFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.cu
	@mkdir -p $(@D)
	$(call quiet,$(CUDAC),NVCC) $(MPICXX_INCLUDES) $(CUDAC_FLAGS) $(CUDAFLAGS) -Iinclude $(CUDA_HOSTFLAGS) -MMD -MP -c $< -o $@

-include $(objects:.o=.d)

# With no PETSc at hand, get one first, or say what to do
ifeq ($(found),)
demo test:
	@petsc=$$(tools/find-petsc --install --tests) && $(MAKE) --no-print-directory $$petsc $@
plugin-path advise bench scaling tutorials programs petsc-suite coverage sanitize valgrind memcheck racecheck install:
	@tools/find-petsc
else
plugin-path:
	@echo $(PLUGIN)

demo: $(PLUGIN) $(BUILD)/tutorials/ex1
	@$(petsc) MPIEXEC='$(MPIEXEC)' tools/demo $(BUILD)

test: $(PLUGIN)
	@petsc=$$($(petsc) tools/find-petsc --install --tests) && env $$petsc CFLAGS='$(ours)' LDFLAGS='$(LDFLAGS)' PETSC_LIB='$(libpetsc)' tools/run-tests $(BUILD) '$(TESTS)'

advise: $(PLUGIN) $(BUILD)/tutorials/advise
	@$(petsc) MPIEXEC='$(MPIEXEC)' MATRIX='$(MATRIX)' RHS='$(RHS)' RANKS='$(RANKS)' OPTIONS='$(OPTIONS)' tools/advise $(BUILD)

bench: $(PLUGIN) $(BUILD)/benchmarks/solvers $(BUILD)/benchmarks/residuals
	@$(petsc) MPIEXEC='$(MPIEXEC)' benchmarks/run $(BUILD)

scaling: $(PLUGIN) $(BUILD)/benchmarks/solvers
	@$(petsc) MPIEXEC='$(MPIEXEC)' benchmarks/scaling $(BUILD)

tutorials: $(PLUGIN) $(addprefix $(BUILD)/,$(basename $(wildcard tutorials/*.c)))
	@echo $(BUILD)/tutorials

programs: $(PLUGIN)
	@$(petsc) PETSC_LIB='$(libpetsc)' PETSC_CC_INCLUDES='$(PETSC_CC_INCLUDES)' MPIEXEC='$(MPIEXEC)' tools/petsc-programs $(BUILD)

petsc-suite: $(PLUGIN)
	@$(petsc) tools/petsc-suite $(BUILD)

coverage:
	@$(petsc) tools/coverage $(BUILD)-coverage

sanitize valgrind:
	@$(petsc) tools/sanitize $@ $(BUILD)-$@ '$(TESTS)'

memcheck racecheck:
	@$(petsc) tools/sanitize $@ $(BUILD) '$(TESTS)'

install: $(PLUGIN)
	@$(installation) $(BUILD) $(PETSC_DIR)
endif

# Programs that take the plugin at run time, and one that links it
$(addprefix $(BUILD)/,$(basename $(wildcard tutorials/*.c benchmarks/*.c))): $(BUILD)/%: $(BUILD)/obj/%.o
	@mkdir -p $(@D)
	$(call quiet,$(CC),LINK) $(CFLAGS) $(LDFLAGS) -o $@ $< $(libpetscidrs) $(libpetsc)
$(BUILD)/tutorials/ex6: $(PLUGIN)
$(BUILD)/tutorials/ex6: libpetscidrs = -L$(BUILD) -Wl,-rpath,$(BUILD) -lpetscidrs
-include $(wildcard $(BUILD)/obj/tutorials/*.d $(BUILD)/obj/benchmarks/*.d)

installation = PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' LIBDIR='$(LIBDIR)' VERSION=$(VERSION) SONAME=$(SONAME) tools/install
uninstall:
	@$(installation) --remove

petsc:
	@tools/build-petsc

test-types:
	@tools/test-types

deb:
	@VERSION=$(VERSION) tools/deb

check-source:
	@tools/check-source

nightly:
	@tools/nightly

docs:
	@tools/manualpages --html build/docs
	@echo $(CURDIR)/build/docs/index.html

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' makefile

clean:
	rm -rf $(BUILD)

distclean:
	rm -rf build

.PHONY: all objects plugin-path demo test advise bench scaling tutorials programs petsc-suite coverage sanitize valgrind memcheck racecheck install uninstall petsc test-types deb check-source nightly docs help clean distclean
.SECONDARY:
