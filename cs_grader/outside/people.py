"""Who handed in what, where a file beside the submissions says it."""

from pathlib import Path

import yaml

EXPORTED = "submission_metadata.yml"
"""Lies beside submission_1001/, submission_1002/, ... in an export from Gradescope."""


def people_of(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the names and addresses of those who handed in, by the name of their folder.

    Raises:
        ValueError: The file is not YAML, or not of Gradescope.
    """
    path = folder / EXPORTED
    if not path.is_file():
        return {}
    try:
        # Nodes, not values: what autograders printed stands there as well, in types of Ruby.
        with path.open(encoding="utf-8") as file:
            root = yaml.compose(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        handed_in = _fields(root)
        groups = {name: _fields(node)[":submitters"].value for name, node in handed_in.items()}
        return {
            name: (_all(group, ":name"), _all(group, ":email")) for name, group in groups.items()
        }
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not what Gradescope exports: {reason}") from None


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("it has no fields where some should be")
    return {key.value: value for key, value in node.value}


def _all(group: list[yaml.Node], field: str) -> str:
    """Join what each of a group has in a field."""
    return ", ".join(filter(None, (_fields(one)[field].value for one in group)))
