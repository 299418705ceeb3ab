"""Test which rooms of the package may import which, and what they may import from other projects."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import mmml_losses
from mmml_losses.functional import terms

PACKAGE = Path(mmml_losses.__file__).parent

# The rooms of ours that each room may import, from the bottom up. A room includes the rooms inside it. A module that is
# in no room (version.py) imports nothing of ours.
BELOW_MODELS = ('utils', 'hosts', 'registry', 'functional', 'losses')
BELOW_ENGINE = (*BELOW_MODELS, 'models', 'evaluation', 'datasets', 'visualization')
ROOMS = {
    'utils': (),
    'functional': ('utils',),
    'hosts': ('utils',),
    'registry': ('utils', 'hosts'),
    'losses': ('utils', 'hosts', 'registry', 'functional'),
    'models': BELOW_MODELS,
    'evaluation.functional': ('utils',),
    'evaluation': ('utils', 'registry'),
    'datasets': ('utils', 'registry'),
    'visualization': ('utils', 'registry', 'functional', 'losses', 'evaluation'),
    'engine': BELOW_ENGINE,
    'procedures': (*BELOW_ENGINE, 'engine'),
    'cli': (*BELOW_ENGINE, 'engine', 'procedures'),
    '': ('version', 'hosts', 'registry'),  # mmml_losses/__init__.py
}

# Rooms that need no more than torch and numpy. They use Numba where it is installed.
PLAIN_ROOMS = ('utils', 'functional', 'evaluation.functional')
PLAIN_PACKAGES = {'numpy', 'torch', 'numba'}

# Projects that a user may not have, and the only rooms that import them.
HOST_ROOMS = {'mmpretrain': ('hosts', 'models'), 'mmdet': ('hosts', 'models')}

# Imports of ours inside functions, each with its reason.
LAZY = {
    ('engine.hooks.reliability', 'visualization'): 'Matplotlib loads slowly, and only the end of a run draws.',
}

# The modules that import others by a name made at run time, each with its reason.
BY_NAME = {
    'registry': 'Heads that need MMDetection are imported when a config names them.',
    'cli.listing': 'The list shows all that is installed.',
    'procedures.question_features': 'The user names the function that encodes questions.',
    'evaluation.functional.positive_ranks': 'The compiled kernels are used where Numba works.',
}

# The families of losses that are made of terms, and the sides on which a term can be.
TERM_FAMILIES = ('pointwise', 'reweighted', 'weights', 'corrections', 'estimation', 'large_loss', 'pair')
SIDES = ('positive', 'negative')

# Files of functions whose defaults are all written elsewhere: in the terms, or as constants of weights.py.
WITHOUT_DEFAULTS = ('functional/reweighted.py', 'functional/weights.py')

# Defaults that several losses have, each for itself.
ALIKE = {
    ('logit_bias', 0.0),
    ('loss_weight', 1.0),
    ('reading', 'code'),
    ('negative_temperature', 1.0),
    ('regularizer_weight', 1.0),
    ('scale', 1.0),
    ('way', 'sample'),
}


@dataclass(frozen=True)
class Import:
    """One imported module: ours by its name inside the package, another project's by the project's name."""

    importer: str
    module: str
    ours: bool = True
    lazy: bool = False
    absolute: bool = False


def is_inside(module: str, room: str) -> bool:
    return module == room or module.startswith(f'{room}.')


def room_of(module: str) -> str:
    """Return the innermost room that a module is in, or its own name if no room has it."""
    return max((room for room in ROOMS if room and is_inside(module, room)), key=len, default=module)


def read_modules(package: Path) -> dict[str, Path]:
    """Return the files of a package by their dotted names inside it."""
    files = {}
    for file in package.rglob('*.py'):
        parts = file.relative_to(package).with_suffix('').parts
        files['.'.join(parts[:-1] if parts[-1] == '__init__' else parts)] = file
    return files


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding='utf-8'))


def read_imports(package: Path) -> list[Import]:
    """Read the imports of all modules of a package from their source."""
    files = read_modules(package)
    return [
        found
        for module, file in files.items()
        for statement, lazy in walk_statements(parse(file))
        for found in imports_of(statement, module, file, set(files), lazy, package.name)
    ]


def modules_that_import_by_name(package: Path) -> set[str]:
    """Return the modules in which ``import_module`` or ``__import__`` occurs, however it is reached."""

    def name_of(node: ast.AST) -> str:
        return str(getattr(node, 'id', None) or getattr(node, 'attr', None) or getattr(node, 'name', None))

    return {
        module
        for module, file in read_modules(package).items()
        if not {'import_module', '__import__'}.isdisjoint(map(name_of, ast.walk(parse(file))))
    }


def walk_statements(node: ast.AST, lazy: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the import statements below a node, and whether each runs only when a function is called."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, lazy
        yield from walk_statements(child, lazy or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))


def imports_of(statement, module: str, file: Path, modules: set[str], lazy: bool, package: str) -> Iterator[Import]:
    """Yield what one import statement imports; relative names are resolved as Python does."""
    if isinstance(statement, ast.Import):
        sources = [(alias.name, None) for alias in statement.names]
    else:
        source = statement.module or ''
        if statement.level:
            parents = f'{package}.{module}'.rstrip('.').split('.')
            dropped = statement.level - (file.name == '__init__.py')
            source = '.'.join([*parents[: len(parents) - dropped], *filter(None, [source])])
        sources = [(source, alias.name) for alias in statement.names]
    for source, name in sources:
        if not is_inside(source, package):
            yield Import(module, source.partition('.')[0], ours=False, lazy=lazy)
            continue
        target = source[len(package) + 1 :]
        submodule = f'{target}.{name}'.lstrip('.')
        absolute = isinstance(statement, ast.Import) or not statement.level
        yield Import(module, submodule if submodule in modules else target, lazy=lazy, absolute=absolute)


def room_breaches(imports: list[Import]) -> set[str]:
    """Return the imports from rooms that are not below the room of the importer."""
    return {
        f'{found.importer} imports {found.module}'
        for found in imports
        if found.ours
        and not is_inside(found.module, room_of(found.importer))
        and not any(is_inside(found.module, room) for room in ROOMS.get(room_of(found.importer), ()))
    }


def lazy_imports(imports: list[Import]) -> set[tuple[str, str]]:
    return {(found.importer, found.module) for found in imports if found.ours and found.lazy}


def absolute_imports(imports: list[Import]) -> set[str]:
    return {f'{found.importer} imports {found.module}' for found in imports if found.absolute}


def find_cycle(imports: list[Import]) -> list[str]:
    """Return the modules of an import cycle, imports inside functions included; empty if there is none."""
    graph: dict[str, set[str]] = {}
    for found in imports:
        if found.ours and found.importer:
            graph.setdefault(found.importer, set()).add(found.module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def project_breaches(imports: list[Import]) -> set[str]:
    """Return the imports of other projects in rooms that must do without them."""
    return {
        f'{found.importer} imports {found.module}'
        for found in imports
        if not found.ours and found.module not in sys.stdlib_module_names
        if (found.module in HOST_ROOMS and room_of(found.importer) not in HOST_ROOMS[found.module])
        or (room_of(found.importer) in PLAIN_ROOMS and found.module not in PLAIN_PACKAGES)
    }


def written_defaults(tree: ast.AST) -> list[tuple[str, object]]:
    """List the numbers, texts, True and False that are defaults of arguments or of fields; None is no value."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [*node.args.posonlyargs, *node.args.args]
            found += zip(reversed(arguments), reversed(node.args.defaults), strict=False)
            found += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        elif isinstance(node, ast.ClassDef):
            found += ((each.target, each.value) for each in node.body if isinstance(each, ast.AnnAssign))
    values = ((getattr(name, 'arg', None) or name.id, literal(value)) for name, value in found)
    return [(name, value) for name, value in values if value is not None]


def literal(node: ast.expr | None) -> object:
    """Return the value of a literal, negative numbers included; None for any other expression."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def repeats_a_term(name: str) -> bool:
    """Return whether an argument of a loss is a setting of a term, such as ``gamma`` or ``positive_scale``."""
    kinds = [kind for kind in vars(terms).values() if isinstance(kind, type) and issubclass(kind, terms.Term)]
    settings = {each.name for kind in kinds for each in fields(kind) if each.default is not MISSING}
    return {name, *(name.removeprefix(f'{side}_').removesuffix(f'_{side}') for side in SIDES)} & settings != set()


@pytest.fixture(scope='module')
def imports() -> list[Import]:
    found = read_imports(PACKAGE)
    assert len(found) > 500
    return found


def test_rooms_import_only_rooms_below_them(imports):
    assert room_breaches(imports) == set()


def test_no_import_cycle(imports):
    assert find_cycle(imports) == []


def test_imports_inside_functions_are_declared(imports):
    assert lazy_imports(imports) == LAZY.keys()


def test_our_own_modules_are_imported_relatively(imports):
    assert absolute_imports(imports) == set()


def test_other_projects_stay_in_their_rooms(imports):
    assert project_breaches(imports) == set()


def test_modules_that_import_by_name_are_declared():
    assert modules_that_import_by_name(PACKAGE) == BY_NAME.keys()


@pytest.mark.parametrize(
    'source', ['from importlib import import_module', 'import importlib\nimportlib.import_module(x)', '__import__(x)']
)
def test_imports_by_name_are_found(tmp_path, source):
    (tmp_path / 'a.py').write_text(source)
    (tmp_path / 'b.py').write_text('import importlib.util')
    assert modules_that_import_by_name(tmp_path) == {'a'}


def defaults_in(*rooms: str) -> dict[str, list[tuple[str, object]]]:
    """Return the defaults that are written in each file of some rooms."""
    files = [file for room in rooms for file in sorted((PACKAGE / room).rglob('*.py'))]
    return {file.relative_to(PACKAGE).as_posix(): written_defaults(parse(file)) for file in files}


def test_each_default_of_a_loss_is_written_once():
    written = [each for found in defaults_in('functional', 'losses').values() for each in found]
    defaults = Counter(each for each in written if not isinstance(each[1], bool))
    assert ('lamb', 1.5) in defaults
    assert {default for default, times in defaults.items() if times > 1} == ALIKE


def test_a_setting_of_a_term_has_its_default_from_the_term():
    repeated = {
        f'{file}: {name}={value!r}'
        for file, found in defaults_in('functional', 'losses').items()
        if Path(file).stem in TERM_FAMILIES
        for name, value in found
        if file in WITHOUT_DEFAULTS or repeats_a_term(name)
    }
    assert repeated == set()


def test_defaults_are_found_in_functions_and_fields():
    source = (
        "class A:\n    lamb: float = 1.5\n    def f(self, a, gamma=-4.0, *, b, on=False, way='x', c=B, d=None): ..."
    )
    assert written_defaults(ast.parse(source)) == [('lamb', 1.5), ('gamma', -4.0), ('on', False), ('way', 'x')]


def test_settings_of_terms_are_known_by_their_names():
    assert all(map(repeats_a_term, ('gamma', 'gamma_negative', 'positive_scale', 'detach_weight', 'lamb', 'margin')))
    assert not any(map(repeats_a_term, ('epsilon', 'spared_margin', 'negative_weight', 'label', 'factor')))


@pytest.mark.parametrize(
    ('module', 'source', 'rule', 'finding'),
    [
        ('utils/arrays.py', 'from ..losses import base', room_breaches, {'utils.arrays imports losses.base'}),
        ('utils/arrays.py', 'import toy.losses.base', room_breaches, {'utils.arrays imports losses.base'}),
        ('datasets/x.py', 'from ..losses.base import A', room_breaches, {'datasets.x imports losses.base'}),
        ('losses/base.py', 'from ..utils.arrays import A', room_breaches, set()),
        ('losses/base.py', 'from . import a', room_breaches, set()),
        ('losses/a.py', 'from .base import A', find_cycle, []),
        ('losses/base.py', 'def f():\n    from .a import A', find_cycle, ['losses.base', 'losses.a', 'losses.base']),
        ('losses/base.py', 'def f():\n    from .a import A', lazy_imports, {('losses.base', 'losses.a')}),
        ('losses/base.py', 'if f():\n    from .a import A', lazy_imports, set()),
        ('losses/base.py', 'from toy.utils import arrays', absolute_imports, {'losses.base imports utils.arrays'}),
        ('losses/base.py', 'from ..utils import arrays', absolute_imports, set()),
        ('utils/arrays.py', 'import numpy.linalg, json', project_breaches, set()),
        ('utils/arrays.py', 'from mmengine.dist import x', project_breaches, {'utils.arrays imports mmengine'}),
        ('losses/base.py', 'def f():\n    import mmdet', project_breaches, {'losses.base imports mmdet'}),
        ('models/heads.py', 'from mmdet.models import x', project_breaches, set()),
    ],
)
def test_each_rule_finds_its_breach(tmp_path, module, source, rule, finding):
    for name in ('utils/__init__', 'utils/arrays', 'losses/__init__', 'losses/base', 'losses/a', 'datasets/x'):
        file = tmp_path / 'toy' / f'{name}.py'
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / 'toy/models').mkdir()
    (tmp_path / 'toy/losses/a.py').write_text('from .base import A')
    (tmp_path / 'toy' / module).write_text(source)
    assert rule(read_imports(tmp_path / 'toy')) == finding
