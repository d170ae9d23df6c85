"""Compiles the plugin by make, for the PETSc of PETSC_DIR and PETSC_ARCH, else for the one that pip has installed, else for that of pkg-config,
and puts it into the Python package with what has to be known of this PETSc. A wheel is for one PETSc on one machine: none is published"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig

from setuptools import setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

root = pathlib.Path(__file__).resolve().parent


def defined(header, name):
    """Whether a header defines a name, or the number that it defines it as"""
    found = re.search(rf'^#define +{name}\b *(\d*)', header, re.M)
    return found and (int(found[1]) if found[1] else True)


def version(header, prefix):
    return '.'.join(str(int(defined(header, f'{prefix}_{part}') or 0)) for part in ('MAJOR', 'MINOR', 'SUBMINOR'))


def petsc_settings():
    """Settings of make that name the PETSc; none where pkg-config is to find it. Where pip builds in isolation the package petsc cannot be
    imported, but is where the package that is built will be"""
    if os.environ.get('PETSC_DIR'):
        return [f'{name}={os.environ.get(name, "")}' for name in ('PETSC_DIR', 'PETSC_ARCH')]
    for path in ('purelib', 'platlib'):
        directory = pathlib.Path(sysconfig.get_path(path), 'petsc')
        if (directory / 'lib/petsc/conf/petscvariables').is_file():
            return [f'PETSC_DIR={directory}', 'PETSC_ARCH=']
    return []


def make(*arguments):
    """Output of make; its messages, and what is missing, are shown as they are"""
    command = ['make', '--no-print-directory', *arguments]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f'petscidrs: {" ".join(command)} has failed; the reason is above\n{done.stdout}')
    return done.stdout


def facts(plugin, settings):
    """What has to be the same when the plugin is loaded"""
    environment = {**os.environ, **dict(setting.split('=', 1) for setting in settings)}
    found = subprocess.run([root / 'tools/find-petsc'], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    names = dict(word.split('=', 1) for word in found.split())
    prefix = pathlib.Path(names['PETSC_DIR'], names['PETSC_ARCH'])
    headers = [d / 'include' for d in (prefix, pathlib.Path(names['PETSC_DIR']))]
    configuration = next(d / 'petscconf.h' for d in headers if (d / 'petscconf.h').is_file()).read_text()
    needed = subprocess.run(['readelf', '-d', plugin], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {
        'version': version((root / 'include/petscidrs.h').read_text(), 'PETSCIDRS_VERSION'),
        'petsc': version(next(d / 'petscversion.h' for d in headers if (d / 'petscversion.h').is_file()).read_text(), 'PETSC_VERSION'),
        'petsc_dir': names['PETSC_DIR'],
        'petsc_arch': names['PETSC_ARCH'],
        'library': next(name for name in re.findall(r'NEEDED.*\[(.*)\]', needed) if name.startswith('libpetsc')),
        'complex': bool(defined(configuration, 'PETSC_USE_COMPLEX')),
        'precision': 'single' if defined(configuration, 'PETSC_USE_REAL_SINGLE') else 'double',
        'integers': 64 if defined(configuration, 'PETSC_USE_64BIT_INDICES') else 32,
        'cuda': bool(defined(configuration, 'PETSC_HAVE_CUDA')),
    }


class BuildPlugin(build_py):
    def run(self):
        super().run()
        settings = petsc_settings()
        make(*settings)
        plugin = pathlib.Path(make('-s', 'plugin-path', *settings).split()[-1]).resolve()
        package = pathlib.Path(self.build_lib, 'petscidrs')
        programs = [plugin.parent / 'tutorials' / name for name in ('advise', 'ex1')]
        make(*settings, *map(str, programs))
        for source, name in ((plugin, 'lib/libpetscidrs.so'), (root / 'include/petscidrs.h', 'include/petscidrs.h'), *((program, f'lib/{program.name}') for program in programs), (root / 'tools/advise', 'lib/petscidrs-advise')):
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, package / name)
        (package / 'build.json').write_text(json.dumps(facts(plugin, settings), indent=1))


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return 'py3', 'none', super().get_tag()[2]


setup(version=version((root / 'include/petscidrs.h').read_text(), 'PETSCIDRS_VERSION'), cmdclass={'build_py': BuildPlugin, 'bdist_wheel': PlatformWheel})
