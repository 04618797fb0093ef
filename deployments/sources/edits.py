"""Edits of a text in YAML that keep the rest of it, comments included.

An edit may fail silently, for example where the text has anchors; the caller checks that the result has the expected values.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from deployments.sources.prefect_file import Location, Outline, find


def with_entry(file: Outline, entry: Mapping[str, Any]) -> str:
    """Return the text with another entry at the end of `deployments`."""
    block = _dump([entry])
    text = file.text if not file.text or file.text.endswith("\n") else file.text + "\n"
    key, node = find(file.root, ("deployments",))
    if key is None:
        return f"{text}deployments:\n{textwrap.indent(block, '  ')}"
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        lines = text.splitlines(keepends=True)
        after = _last_line(node) + 1
        indent = " " * node.start_mark.column
        return "".join([*lines[:after], textwrap.indent(block, indent), *lines[after:]])
    # Replace `deployments: []`, or an empty value, by the entry on the lines below.
    start, end = key.end_mark.index, node.end_mark.index
    head = file.text[start:end].partition(":")[0] + ":"
    rest = file.text[end:].partition("\n")
    return f"{file.text[:start]}{head}{rest[0]}\n{textwrap.indent(block, '  ')}{rest[2]}"


def without_entry(file: Outline, index: int) -> str:
    """Return the text without an entry of `deployments`."""
    key, node = find(file.root, ("deployments",))
    lines = file.text.splitlines(keepends=True)
    item = node.value[index]
    del lines[item.start_mark.line : _last_line(item) + 1]
    if len(node.value) == 1 and key is not None:
        line = key.start_mark.line
        lines[line] = lines[line].replace(":", ": []", 1)
    return "".join(lines)


def with_value(file: Outline, location: Location, value: Any) -> str:
    """Return the text with the value of a key replaced, or added after the last key beside it.

    A parent in one line (`{a: 1}`) is written in several.
    """
    *parents, key = location
    parent, data = _at(file, parents)
    if not isinstance(parent, yaml.MappingNode) or parent.flow_style:
        if not isinstance(parents[-1], str):
            return file.text  # the whole entry is in one line
        return with_value(file, tuple(parents), {**(data or {}), key: value})
    first, *rest = _dump({key: value}).splitlines(keepends=True)
    text = file.text if file.text.endswith("\n") else file.text + "\n"
    lines = text.splitlines(keepends=True)
    column = parent.value[0][0].start_mark.column
    start = end = _last_line(parent) + 1
    head = " " * column
    for name, node in parent.value:
        if name.value == key:
            is_scalar = isinstance(node, yaml.ScalarNode) and not isinstance(value, list | dict)
            if is_scalar and node.end_mark.line == name.end_mark.line:
                # Keeps a comment behind the value.
                new = first.partition(":")[2].strip()
                return f"{text[: name.end_mark.index]}: {new}{text[node.end_mark.index :]}"
            start, end = name.start_mark.line, max(name.start_mark.line, _last_line(node)) + 1
            head = lines[start][:column]
    return "".join([*lines[:start], head + first, *(" " * column + line for line in rest), *lines[end:]])


def _at(file: Outline, location: Sequence[int | str]) -> tuple[yaml.Node | None, Any]:
    """Return the node and the data at exactly this location, or None."""
    node: yaml.Node | None = file.root
    data: Any = file.data
    for part in location:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == part), None)
        else:
            node = node.value[part] if isinstance(node, yaml.SequenceNode) and isinstance(part, int) else None
        if node is None:
            return None, None
        data = data[part]
    return node, data


def _dump(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)


def _last_line(node: yaml.Node) -> int:
    """The last line of a value. The end mark of a YAML block lies after the comments that follow it."""
    inner: Sequence[yaml.Node] = ()
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:
        inner = node.value
    elif isinstance(node, yaml.MappingNode) and not node.flow_style:
        inner = [part for pair in node.value for part in pair]
    if inner:
        return max(_last_line(part) for part in inner if part.start_mark.line >= node.start_mark.line)
    end: int = node.end_mark.line
    return end - 1 if node.end_mark.column == 0 and end > node.start_mark.line else end
