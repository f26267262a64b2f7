"""JavaScript modules joined to one script, since a page opened from a disk may import no file."""

import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).with_name("page")

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function|async function)\b)", re.MULTILINE)
_TOP_LEVEL = re.compile(
    r"^(?:export )?(?:const|let|class|function\*?|async function) ([\w$]+)", re.M
)


def joined_script(entry: str, folder: Path = PAGE) -> str:
    """Return a module and all that it imports as one script, imported modules first.

    All share one scope, so a name may be declared by one module only.

    Args:
        entry: Name of the module, without `.js`.
        folder: Where the modules lie.

    Raises:
        ValueError: Two modules declare the same name, or import and export do not fit together.
    """
    parts: list[str] = []
    declared: dict[str, str] = {}
    for name in _in_order(entry, folder, []):
        source = (folder / f"{name}.js").read_text(encoding="utf-8")
        for found in _TOP_LEVEL.findall(source):
            if (other := declared.setdefault(found, name)) != name:
                raise ValueError(f"{other}.js and {name}.js both declare {found}")
        script = _EXPORT.sub("", _IMPORT.sub("", source))
        if wrong := re.search(r"^(?:import|export)\b.*", script, re.MULTILINE):
            raise ValueError(f"{name}.js: {wrong.group()!r} is of a form that is not joined here")
        parts.append(f"// {name}.js\n{script}")
    return "\n".join(parts)


def _in_order(name: str, folder: Path, met: list[str]) -> Iterator[str]:
    """Yield the modules that a module needs, then the module itself."""
    met.append(name)
    source = (folder / f"{name}.js").read_text(encoding="utf-8")
    for names, imported in _IMPORT.findall(source):
        text = (folder / f"{imported}.js").read_text(encoding="utf-8")
        for wanted in filter(None, (part.strip() for part in names.split(","))):
            if not re.search(rf"^export .*\b{re.escape(wanted)}\b", text, re.MULTILINE):
                raise ValueError(f"{name}.js imports {wanted}, which {imported}.js does not export")
        if imported not in met:
            yield from _in_order(imported, folder, met)
    yield name
