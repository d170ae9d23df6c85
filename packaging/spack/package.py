from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Petscidrs(Package):
    """KSPIDRS, the Krylov solver IDR(s) for large nonsymmetric systems, as a plugin of PETSc."""

    # Built from a source tree at hand, by "spack dev-build": there is nothing to fetch
    version("main")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("python@3.8:", type="build")
    depends_on("mpi")
    depends_on("petsc@3.18: +shared +mpi")

    def install(self, spec, prefix):
        make("install", f"PETSC_DIR={spec['petsc'].prefix}", "PETSC_ARCH=", f"PREFIX={prefix}")

    def setup_run_environment(self, env):
        # PETSc programs of this environment know the type by themselves: ./app -ksp_type idrs
        env.append_path("PETSC_OPTIONS", f"-dll_append {self.prefix.lib}/libpetscidrs.so", separator=" ")
