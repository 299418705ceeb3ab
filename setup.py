"""Packaging: metadata, extras read from requirements/, and the configs, tools and model index for openmim."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# openmim finds the configs, tools and model index of an installed package under <package>/.mim.
SHIPPED_FOR_MIM = ('configs', 'tools', 'model-index.yml')


def read_version() -> str:
    """Read the version as text: importing the package would need torch while building."""
    text = (ROOT / 'mmml_losses' / 'version.py').read_text(encoding='utf-8')
    return re.search(r"__version__ = '([^']+)'", text).group(1)


def read_requirements(name: str) -> list:
    lines = (ROOT / 'requirements' / name).read_text(encoding='utf-8').splitlines()
    requirements = (line.split('#')[0].strip() for line in lines)
    return [requirement for requirement in requirements if requirement]


def read_long_description() -> str:
    readme = ROOT / 'README.md'
    return readme.read_text(encoding='utf-8') if readme.is_file() else ''


class BuildWithMim(build_py):
    """Put what openmim looks for under ``mmml_losses/.mim``: copies in a wheel, links in an editable install."""

    def run(self):
        super().run()
        if self.editable_mode:
            self.link_into_source()
        else:
            self.copy_into_build()

    def link_into_source(self):
        directory = ROOT / 'mmml_losses' / '.mim'
        directory.mkdir(exist_ok=True)
        for name in SHIPPED_FOR_MIM:
            link = directory / name
            # Windows may forbid links; only openmim would miss them.
            if not link.is_symlink():
                with suppress(OSError):
                    link.symlink_to(Path('..', '..', name), target_is_directory=(ROOT / name).is_dir())

    def copy_into_build(self):
        directory = Path(self.build_lib) / 'mmml_losses' / '.mim'
        # A file deleted since the last build must not linger in the next wheel.
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for name in SHIPPED_FOR_MIM:
            if (ROOT / name).is_dir():
                left_out = shutil.ignore_patterns('__pycache__', '*.py[cod]')
                shutil.copytree(ROOT / name, directory / name, ignore=left_out)
            else:
                shutil.copy(ROOT / name, directory / name)


setup(
    name='mmml_losses',
    version=read_version(),
    description='Multi-label losses, metrics and datasets for OpenMMLab',
    long_description=read_long_description(),
    long_description_content_type='text/markdown',
    author='The mmml_losses authors',
    license='Apache-2.0',
    keywords='multi-label classification, object detection, loss functions, calibration, OpenMMLab, PyTorch',
    classifiers=[
        'Development Status :: 3 - Alpha',
        'Intended Audience :: Science/Research',
        'Operating System :: POSIX',
        'Programming Language :: Python :: 3',
        'Programming Language :: Python :: 3.10',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
    ],
    python_requires='>=3.10',
    packages=find_packages(include=['mmml_losses*']),
    # py.typed lets type checkers read our annotations; the splits are the image ids of published training sets.
    package_data={'mmml_losses': ['py.typed'], 'mmml_losses.datasets.wrappers': ['splits/*.json']},
    # Spelled out, an editable install is a path and not an import hook, which a folder of the same name would shadow:
    # the clone itself, seen from its parent folder.
    package_dir={'': '.'},
    install_requires=read_requirements('runtime.txt'),
    # [mmpretrain] and [mmdet] must not be combined: the first brings mmcv-lite, the second mmcv, and both install the
    # import package `mmcv` over each other. For both projects take [mmdet] and `pip install mmpretrain`.
    extras_require={
        extra: read_requirements(f'{extra}.txt') for extra in ('mmpretrain', 'mmdet', 'fast', 'text', 'dev')
    },
    cmdclass={'build_py': BuildWithMim},
    zip_safe=False,
)
