# Copy this file to config/BuildSystem/config/packages of PETSc's source tree, and configure with --download-petscidrs=<tarball of petscidrs>.
# PETSc's makefiles build and install the plugin once PETSc itself has been built
import config.package

class Configure(config.package.Package):
  def __init__(self, framework):
    config.package.Package.__init__(self, framework)
    self.versionname        = 'PETSCIDRS_VERSION_MAJOR'
    self.download           = ['petscidrs.tar.gz'] # there is no public place yet: name a tarball
    self.downloaddirnames   = ['petscidrs']
    self.functions          = []
    self.includes           = []
    self.useddirectly       = 0
    self.linkedbypetsc      = 0
    self.builtafterpetsc    = 1
    self.skippackagewithoptions = 1
    self.precisions         = ['single', 'double']
    return

  def setupDependencies(self, framework):
    config.package.Package.setupDependencies(self, framework)
    self.sharedLibraries = framework.require('PETSc.options.sharedLibraries', self)
    self.mpi             = framework.require('config.packages.MPI', self)
    self.cuda            = framework.require('config.packages.CUDA', self)
    self.deps            = [self.mpi]
    self.odeps           = [self.cuda]
    return

  def Install(self):
    import os
    if not self.checkSharedLibrariesEnabled():
      raise RuntimeError('petscidrs is a plugin, and needs a PETSc with shared libraries')
    if self.argDB['prefix'] and not 'package-prefix-hash' in self.argDB:
      prefix = os.path.abspath(os.path.expanduser(self.argDB['prefix']))
      petsc  = 'PETSC_DIR=' + prefix + ' PETSC_ARCH=""'
    else:
      prefix = os.path.abspath(os.path.join(self.petscdir.dir, self.arch))
      petsc  = 'PETSC_DIR=${PETSC_DIR} PETSC_ARCH=${PETSC_ARCH}'
    self.include = [os.path.join(prefix, 'include')]
    self.lib     = [os.path.join(prefix, 'lib', 'libpetscidrs.' + self.setCompilers.sharedLibraryExt)]
    self.addPost(self.packageDir, ['${OMAKE} ' + petsc, '${OMAKE} ' + petsc + ' PREFIX=' + prefix + ' install'])
    self.logPrintBox('The plugin of petscidrs will be in ' + self.lib[0] + '; programs take it with -dll_append \'${PETSC_LIB_DIR}/libpetscidrs.so\'')
    return self.installDir
