"""Which fields `main_config` has, as far as reading the program tells.

Owns: following assignments of dicts at the top level of a program.  What it does not understand counts as
"anything may be in there", so no sample is refused that the program would take.
"""

import ast
import difflib
from typing import Any, Dict, List, Optional, Tuple, Union

#: Functions whose result has the fields of their one argument.
_COPIES = frozenset("EasyDict edict deepcopy copy OrderedDict ConfigDict Dict".split())


class Fields:
    """The keys of a dict; None = anything.  A key's value is Fields or, for what is no dict, None."""

    def __init__(self, keys: Optional[Dict[Any, Optional["Fields"]]] = None) -> None:
        self.keys = keys

    def missing(self, path: Tuple[Any, ...]) -> Optional[Tuple[Tuple[Any, ...], Optional[str]]]:
        """The beginning of `path` that is not there, and the nearest key that is; None if all may be there."""
        at: Optional[Fields] = self
        for i, key in enumerate(path):
            if at is None:
                return path[:i], None  # a number or a text has no fields
            if at.keys is None:
                return None
            if key not in at.keys:
                near = difflib.get_close_matches(str(key), [k for k in at.keys if isinstance(k, str)], 1)
                return path[: i + 1], near[0] if near else None
            at = at.keys[key]
        return None


def main_fields(source: str, entry_line: int) -> Fields:
    """The fields of main_config when the line `entry_line` (from 1) is reached.  Raises SyntaxError."""
    reader = _Reader()
    for statement in ast.parse(source).body:
        if statement.lineno >= entry_line:
            break
        reader.statement(statement)
    found = reader.names.get("main_config")
    return found if isinstance(found, Fields) else Fields()


class _Reader:
    def __init__(self) -> None:
        self.names: Dict[str, Optional[Fields]] = {}

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self.assign(target, value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, self.value(node.value))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            self.names[node.name] = Fields()
        elif not isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass)):
            self.blur(node)

    def assign(self, target: ast.expr, value: Optional[Fields]) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
            return
        path = _path(target)
        if path is None:
            self.blur(target)
            return
        at = self.names.get(path[0])
        for key in path[1:-1]:
            at = at.keys.get(key) if at is not None and at.keys is not None else None
        if at is not None and at.keys is not None:
            at.keys[path[-1]] = value

    def blur(self, node: ast.AST) -> None:
        """Whatever this code names may have changed in any way."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                known = self.names.get(part.id)
                if known is not None:
                    known.keys = None
                self.names[part.id] = Fields()

    def value(self, node: ast.expr) -> Optional[Fields]:
        if isinstance(node, (ast.Constant, ast.List, ast.Tuple, ast.JoinedStr, ast.UnaryOp)):
            return None
        if isinstance(node, ast.Name):
            return self.names.get(node.id, Fields())
        if isinstance(node, ast.Dict):
            return self.entries(list(zip(node.keys, node.values)))
        if isinstance(node, ast.Call):
            return self.call(node)
        return Fields()

    def call(self, node: ast.Call) -> Fields:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _COPIES and len(node.args) == 1 and not node.keywords:
            found = self.value(node.args[0])
            return found if found is not None else Fields()
        if name == "dict" and len(node.args) <= 1:
            first: List[Tuple[Any, ast.expr]] = [(None, a) for a in node.args]
            return self.entries(first + [(k.arg, k.value) for k in node.keywords])
        self.blur(ast.Tuple(elts=list(node.args), ctx=ast.Load()))
        return Fields()

    def entries(self, items: List[Tuple[Union[None, str, ast.expr], ast.expr]]) -> Fields:
        """A dict of (key, value); without a key the value is a dict whose entries are taken."""
        keys: Dict[Any, Optional[Fields]] = {}
        for key, node in items:
            value = self.value(node)
            if key is None:
                if value is None or value.keys is None:
                    return Fields()
                keys.update(value.keys)
            elif isinstance(key, str):
                keys[key] = value
            elif isinstance(key, ast.Constant):
                keys[key.value] = value
            else:
                return Fields()
        return Fields(keys)


def _path(target: ast.expr) -> Optional[List[Any]]:
    """[name, key, …] of name["key"].other; None for anything else."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Attribute):
        before = _path(target.value)
        return None if before is None else before + [target.attr]
    if isinstance(target, ast.Subscript):
        index: Any = target.slice
        index = getattr(index, "value", index) if type(index).__name__ == "Index" else index  # Python 3.8
        before = _path(target.value)
        return None if before is None or not isinstance(index, ast.Constant) else before + [index.value]
    return None
