# libpetscidrs: the Krylov solver IDR(s) for PETSc, as a plugin
#
#   make demo          find or install PETSc, build the plugin, solve a real system
#   make test          run the test suite; TESTS='tests-ops_shadow%' selects tests
#   make               build the plugin, for the PETSc of PETSC_DIR and PETSC_ARCH, or of pkg-config
#   make plugin-path   print the path of the plugin
#   make advise        find a solver and a preconditioner for MATRIX=file [RHS=file]
#   make tutorials     compile the tutorials in C
#   make bench         run the benchmarks; PART=columns those of several right-hand sides alone
#   make scaling       time the solvers on a growing number of processes
#   make rivals        build benchmarks/rivals; HYPRE=build HYPRE_SRC=source CUDSS=wheel AMGX=build AMGX_SRC=source GINKGO=build
#                      GINKGO_SRC=source, all optional
#   make install       install in PREFIX (/usr/local), below DESTDIR if set; make uninstall removes it
#   make deb           build a Debian package in build/deb, for the PETSc of the distribution
#   make petsc         build PETSc from its source package in a cache directory, see tools/build-petsc
#   make docs          write the documentation and manual pages as a web site in build/docs
#   make clean         remove the build for this PETSc; make distclean removes all builds
#   make help          print this text
#
# Further checks:
#
#   make programs      run programs of PETSc with the plugin and with bcgs
#   make petsc-suite   run PETSc's own tests of KSP with the plugin, bcgs and idr
#   make coverage      list the lines that the test suite does not run
#   make sanitize      run the test programs with AddressSanitizer and UndefinedBehaviorSanitizer
#   make valgrind      run the test programs in valgrind
#   make memcheck      run the test programs in compute-sanitizer on a GPU; also make racecheck
#   make gpu-tests     build the test programs for tools/record-gpu
#   make test-types    run the test programs with 64-bit integers and single precision
#   make check-source  check the layout of the sources
#   make objects       compile only; a configured PETSc is enough
#   make nightly       run the checks that take hours, see tools/nightly
#
# Settings: PETSC_DIR, PETSC_ARCH, CFLAGS, NCCL (-lnccl if found; empty for none), PREFIX, LIBDIR (PREFIX/lib), DESTDIR, V=1 (show commands)

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
  # PETSc's variables give compilers, flags and libraries; CFLAGS stay ours
  ours := $(CFLAGS)
  include $(PETSC_DIR)/lib/petsc/conf/variables
  CFLAGS  := $(if $(ours),$(ours),-O3 -g -Wall)
  # Debian's makefiles set no run path. Its PETSc with debugging is not where the loader looks; another library of that name is
  ifeq ($(CC_LINKER_SLFLAG),-L)
    ifeq ($(dir $(realpath $(PETSC_LIB_DIR)/$(patsubst -l%,lib%.so,$(firstword $(PETSC_LIB_BASIC))))),$(realpath $(PETSC_LIB_DIR))/)
      runpath := -Wl,-rpath,$(PETSC_LIB_DIR)
    endif
  endif
  libpetsc = $(C_SH_LIB_PATH) $(runpath) -L$(PETSC_LIB_DIR) $(PETSC_LIB_BASIC) -lm
  petsc    = PETSC_DIR=$(PETSC_DIR) PETSC_ARCH=$(PETSC_ARCH)
endif
.DEFAULT_GOAL := all
# A function that this PETSc lacks must fail at compile time, not at load time
IDRS_CFLAGS := -Werror=implicit-function-declaration
# Flags that link the library of a directory, and libraries of CUDA
linked = -L$(1) -Wl,-rpath,$(realpath $(1)) -lpetscidrs
cuda   = $(filter -L% -Wl% $(1),$(CUDA_LIB))
quiet = $(if $(V),$(1),@printf '%12s %s\n' '$(2)' '$(@:$(CURDIR)/%=%)'; $(1))

# One build directory for each PETSc
# a build directory behind a link is the same one: the rules for headers name its files
BUILD  := $(or $(realpath build),$(CURDIR)/build)/$(patsubst _%,%,$(subst /,_,$(abspath $(PETSC_DIR))$(addprefix /,$(PETSC_ARCH))))
PLUGIN := $(BUILD)/libpetscidrs.so
# The same with its private functions, for the tests of these
PRIVATE := $(BUILD)/private/libpetscidrs.so

sources := $(sort $(shell find src/ -name "*.c"))
# CUDA if this PETSc was built with it and is new enough, see idrscompat.h: nvcc compiles, the C compiler links
ifneq ($(CUDA_LIB),)
  ifneq ($(shell grep -E 'PETSC_VERSION_MINOR +1[89]$$' $(PETSC_DIR)/include/petscversion.h),)
    remark := Without back end cuda and -sf_type nccl, which need PETSc 3.20 or newer
  else
    sources  += $(sort $(shell find src/ -name "*.cu"))
    cudalibs := $(call cuda,-lcudart)
    # NCCL if the compilers find it; an empty NCCL= leaves it out
    NCCL     ?= $(shell echo '\#include <nccl.h>' | $(CC) $(PETSC_CCPPFLAGS) -E -x c - >/dev/null 2>&1 && echo 'int main(void){return 0;}' | $(CC) -x c - $(cudalibs) -lnccl -o /dev/null 2>/dev/null && echo -lnccl)
    ifneq ($(NCCL),)
      CUDAFLAGS += -DPETSCIDRS_HAVE_NCCL
      cudalibs  += $(NCCL)
    endif
  endif
endif
objects := $(patsubst %,$(BUILD)/obj/%.o,$(basename $(sources)))

# Fused loops: vectorized reductions where marked, and complex multiplication without the treatment of infinities if the compiler
# supports that
$(BUILD)/obj/src/vec/vec/idrsvec.o $(BUILD)/obj/src/ksp/pc/impls/bjidrs/bjidrshost.o: IDRS_CFLAGS += -fopenmp-simd $(shell $(CC) -fcx-limited-range -x c -c /dev/null -o /dev/null 2>/dev/null && echo -fcx-limited-range)

ifneq ($(found),)
all: $(PLUGIN)
objects: $(objects)
else
all objects:
	@tools/find-petsc
endif

$(PLUGIN): exports = -Wl,--version-script=src/petscidrs.map
$(PLUGIN): src/petscidrs.map
$(PLUGIN) $(PRIVATE): $(objects)
	@mkdir -p $(@D)
	$(call quiet,$(CC),LINK) -shared $(CFLAGS) $(LDFLAGS) $(exports) -Wl,-soname,$(SONAME) -Wl,-z,nodelete -o $(@D)/libpetscidrs.so.$(VERSION) $(objects) $(libpetsc) $(cudalibs)
	@ln -sf libpetscidrs.so.$(VERSION) $(@D)/$(SONAME)
	@ln -sf $(SONAME) $@
	@$(if $(remark),echo '$(remark)',:)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call quiet,$(CC),CC) $(CFLAGS) -fPIC -fvisibility=hidden $(IDRS_CFLAGS) -Iinclude $(PETSC_CCPPFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.cu
	@mkdir -p $(@D)
	$(call quiet,$(CUDAC),NVCC) $(MPICXX_INCLUDES) $(CUDAC_FLAGS) $(CUDAFLAGS) -Iinclude $(CUDA_HOSTFLAGS) -MMD -MP -c $< -o $@

-include $(objects:.o=.d)

# Without a PETSc, install one first, or print what to do
ifeq ($(found),)
demo test:
	@petsc=$$(tools/find-petsc --install --tests) && $(MAKE) --no-print-directory $$petsc $@
plugin-path advise bench scaling rivals tutorials programs petsc-suite coverage sanitize valgrind memcheck racecheck gpu-tests install:
	@tools/find-petsc
else
plugin-path:
	@echo $(PLUGIN)

demo: $(PLUGIN) $(BUILD)/tutorials/ex1
	@$(petsc) MPIEXEC='$(MPIEXEC)' tools/demo $(BUILD)

test: $(PLUGIN) $(PRIVATE)
	@petsc=$$($(petsc) tools/find-petsc --install --tests) && env $$petsc CFLAGS='$(ours)' LDFLAGS='$(LDFLAGS)' PETSC_LIB='$(libpetsc)' tools/run-tests $(BUILD) '$(TESTS)'

advise: $(PLUGIN) $(BUILD)/tutorials/advise $(BUILD)/tutorials/ex1
	@MPIEXEC='$(MPIEXEC)' ADVISE_PROGRAM='$(BUILD)/tutorials/advise' ADVISE_PLUGIN='$(PLUGIN)' ADVISE_USAGE='make advise MATRIX=file [RHS=file] [RANKS=processes] [OPTIONS="-ksp_rtol 1e-6 ..."]' tools/advise $(if $(MATRIX),'$(MATRIX)') $(if $(RHS),'$(RHS)') $(if $(RANKS),-n '$(RANKS)') $(OPTIONS)

bench: $(PLUGIN) $(addprefix $(BUILD)/benchmarks/,solvers residuals matsolve columns stream)
	@$(petsc) MPIEXEC='$(MPIEXEC)' benchmarks/run $(BUILD)

scaling: $(PLUGIN) $(BUILD)/benchmarks/solvers
	@$(petsc) MPIEXEC='$(MPIEXEC)' benchmarks/scaling $(BUILD)

# The programs whose libraries are given
rivals := $(addprefix $(BUILD)/benchmarks/rivals/,generate petsc $(if $(HYPRE),hypre) $(if $(CUDSS),cudss) $(if $(AMGX),amgx) $(if $(GINKGO),ginkgo))
rivals: $(rivals)
	@echo $(BUILD)/benchmarks/rivals

tutorials: $(PLUGIN) $(addprefix $(BUILD)/,$(basename $(wildcard tutorials/*.c)))
	@echo $(BUILD)/tutorials

petscprograms = $(petsc) PETSC_LIB='$(libpetsc)' PETSC_CC_INCLUDES='$(PETSC_CC_INCLUDES)' MPIEXEC='$(MPIEXEC)' $(1) tools/petsc-programs $(BUILD)
programs: $(PLUGIN)
	@$(call petscprograms)
	@$(call petscprograms,SOLVER=offload OTHER=idrs EXTRA='-offload_mat_type aij')

petsc-suite: $(PLUGIN)
	@$(petsc) tools/petsc-suite $(BUILD)

coverage:
	@$(petsc) tools/coverage $(BUILD)-coverage

sanitize valgrind:
	@$(petsc) tools/sanitize $@ $(BUILD)-$@ '$(TESTS)'

# Which PETSc the programs are for, and what tells tools/record-gpu which kernels a program launches
gpu-tests: $(PRIVATE) $(addprefix $(BUILD)/,$(basename $(wildcard tests/*.c tutorials/*.c))) $(BUILD)/launched-kernels.so
	@cp $(firstword $(wildcard $(addsuffix /include/petscconf.h,$(PETSC_DIR)/$(PETSC_ARCH) $(PETSC_DIR)))) $(BUILD)
	@tools/record-gpu --hash >$(BUILD)/kernels.hash
	@echo $(BUILD)

memcheck racecheck: gpu-tests
	@tools/record-gpu --run $(BUILD) $(BUILD)/$@.txt --again --limit 3600 --jobs 1 --only plain,$@ $(if $(TESTS),--tests '$(TESTS)')

install: $(PLUGIN) $(BUILD)/tutorials/advise $(BUILD)/tutorials/ex1
	@$(installation) $(BUILD) $(PETSC_DIR)
endif

# Programs that load the plugin at run time, and two that link it
$(addprefix $(BUILD)/,$(basename $(wildcard tests/*.c tutorials/*.c benchmarks/*.c))): $(BUILD)/%: $(BUILD)/obj/%.o
	@mkdir -p $(@D)
	$(call quiet,$(CC),LINK) $(CFLAGS) $(LDFLAGS) -o $@ $< $(libpetscidrs) $(libpetsc)
# They define functions in place of those of libraries
$(BUILD)/obj/tests/%.o: IDRS_CFLAGS += -fvisibility=default
$(addprefix $(BUILD)/,$(basename $(wildcard tests/*.c))): $(PRIVATE)
$(addprefix $(BUILD)/,$(basename $(wildcard tests/*.c))): libpetscidrs = $(call linked,$(dir $(PRIVATE))) $(call cuda,-lcudart)
$(BUILD)/launched-kernels.so: tools/launched-kernels.c
	$(call quiet,$(CC),LINK) -shared -fPIC -O1 -Wall -o $@ $<
$(BUILD)/benchmarks/batch: libpetscidrs = $(call cuda,-lcudart -lcublas)
$(BUILD)/tutorials/ex6 $(BUILD)/benchmarks/stream $(BUILD)/benchmarks/larger: $(PLUGIN)
$(BUILD)/benchmarks/columns $(BUILD)/benchmarks/tasks: $(PRIVATE)
$(BUILD)/tutorials/ex6: libpetscidrs = $(call linked,$(BUILD))
$(BUILD)/benchmarks/columns: libpetscidrs = $(call linked,$(dir $(PRIVATE)))
$(BUILD)/benchmarks/stream $(BUILD)/benchmarks/larger: libpetscidrs = $(call linked,$(BUILD)) $(call cuda,-lcudart)
$(BUILD)/benchmarks/tasks: libpetscidrs = $(call linked,$(dir $(PRIVATE))) $(call cuda,-lcudart -lcublas)

# Programs of other libraries find them in their own directory, or by LD_LIBRARY_PATH
$(rivals): $(BUILD)/%: $(BUILD)/obj/%.o
	@mkdir -p $(@D)
	$(if $(rivallibs),@cp -u $(rivallibs) $(@D))
	$(call quiet,$(CC),LINK) $(CFLAGS) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN' -o $@ $< $(rivallink) -lm
$(BUILD)/benchmarks/rivals/petsc: rivallink = $(call cuda,-lcudart) $(libpetsc)
$(BUILD)/benchmarks/rivals/hypre: rivallink = $(HYPRE)/lib/libHYPRE.a $(call cuda,-lcudart -lcublas -lcusparse -lcusolver -lcurand) -lstdc++
$(BUILD)/benchmarks/rivals/cudss: rivallibs = $(addprefix $(CUDSS)/nvidia/cu13/lib/,libcudss.so.1 libcudss_mtlayer_gomp.so.1)
$(BUILD)/benchmarks/rivals/cudss: rivallink = $(CUDSS)/nvidia/cu13/lib/libcudss.so.1 $(call cuda,-lcudart)
$(BUILD)/benchmarks/rivals/amgx: rivallibs = $(AMGX)/libamgxsh.so
$(BUILD)/benchmarks/rivals/amgx: rivallink = $(AMGX)/libamgxsh.so $(call cuda,-lcudart)
$(BUILD)/obj/benchmarks/rivals/hypre.o: IDRS_CFLAGS += -I$(HYPRE) $(addprefix -I$(HYPRE_SRC)/,. utilities IJ_mv krylov multivector parcsr_ls parcsr_mv seq_mv)
$(BUILD)/obj/benchmarks/rivals/cudss.o: IDRS_CFLAGS += -I$(CUDSS)/nvidia/cu13/include
$(BUILD)/obj/benchmarks/rivals/amgx.o: IDRS_CFLAGS += -I$(AMGX_SRC)/include
$(BUILD)/benchmarks/rivals/ginkgo: rivallibs = $(wildcard $(GINKGO)/lib/libginkgo*.so.*)
$(BUILD)/benchmarks/rivals/ginkgo: rivallink = $(wildcard $(GINKGO)/lib/libginkgo*.so) $(call cuda,-lcudart -lcublas -lcusparse -lcurand -lcufft) -lstdc++
$(BUILD)/obj/benchmarks/rivals/ginkgo.o: benchmarks/rivals/ginkgo.cxx
	@mkdir -p $(@D)
	$(call quiet,c++,CXX) $(CFLAGS) -std=c++17 $(if $(CUDA_LIB),,-DSYSTEM_HOST) $(addprefix -isystem,$(GINKGO)/include $(GINKGO_SRC:%=%/include)) $(PETSC_CCPPFLAGS) -MMD -MP -c $< -o $@
-include $(wildcard $(addprefix $(BUILD)/obj/,tests/*.d tutorials/*.d benchmarks/*.d benchmarks/rivals/*.d))

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
	@tools/site build/docs
	@echo 'python3 -m http.server -d $(CURDIR)/build/docs    shows it at http://localhost:8000'

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' makefile

clean:
	rm -rf $(BUILD)

distclean:
	rm -rf build

.PHONY: all objects plugin-path demo test advise bench scaling rivals tutorials programs petsc-suite coverage sanitize valgrind memcheck racecheck gpu-tests install uninstall petsc test-types deb check-source nightly docs help clean distclean
.SECONDARY:
