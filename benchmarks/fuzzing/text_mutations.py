"""Damaged texts and bytes: rule files, symbol files, configurations, plans, journals, records and files of arrays."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

MOST = 60_000  # characters
_TOKEN = re.compile(r"\s+|\w+|[^\w\s]")
_ODD = (
    "", "0", "-1", "99999999999999999999", "1e400", "nan", '"', "'", "'''", '"""', "~~~", "{", "}", "(" * 40, ")" * 40,
    "[" * 40,
    "]", "<", ">", "..", "...", "@", "@name", "$", "\\", "\\u0000", "\0", "\ud800", "😀", "\t", "\r", "\x0b", "#", "=", ",",
    "|",
    "not not not", "x" * 2000, "é",
)  # fmt: skip


def mutate_text(text: str, random: Random, donor: str) -> str:
    """A text with a few of its tokens left out, doubled, exchanged, or replaced by others."""
    tokens, others = _TOKEN.findall(text[:MOST]), _TOKEN.findall(donor[:MOST]) or [" "]
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        start = random.randrange(len(tokens) + 1)
        stop = start + random.choice((1, 1, 1, 2, 5, 30))
        what = random.randrange(6)
        if what == 0:
            del tokens[start:stop]
        elif what == 1:
            tokens[start:start] = tokens[start:stop] * random.choice((1, 1, 3))
        elif what == 2:
            place = random.randrange(len(others))
            tokens[start:stop] = others[place : place + stop - start]
        elif what == 3:
            tokens[start:stop] = [random.choice(_ODD)]
        elif what == 4 and tokens:
            other = random.randrange(len(tokens))
            tokens[start:stop], tokens[other : other + 1] = tokens[other : other + 1], tokens[start:stop]
        else:
            tokens[start:start] = [random.choice(others)]
    return "".join(tokens)[:MOST]


def mutate_json(text: str, random: Random, donor: str) -> str:
    """JSON whose values were exchanged, left out or replaced; one time in four it is damaged as a text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return mutate_text(text, random, donor)
    if random.random() < 0.25:
        return mutate_text(text, random, donor)
    for _ in range(random.choice((1, 1, 2, 5))):
        places = list(_places(value))
        if places:
            holder, key = random.choice(places)
            if random.random() < 0.25:
                del holder[key]
            else:
                holder[key] = _other(holder[key], random, places)
    return json.dumps(value)


def mutate_lines(text: str, random: Random, donor: str) -> str:
    """Lines of JSON, some of which are damaged, left out, doubled or exchanged."""
    lines, others = text.splitlines(), donor.splitlines()
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(lines) + 1)
        what = random.randrange(8)
        if what == 0:
            del lines[at : at + 1]
        elif what == 1:
            lines[at:at] = [random.choice(others)] * random.choice((1, 3))
        else:
            lines[at : at + 1] = [mutate_json(line, random, donor) for line in lines[at : at + 1]]
    return "\n".join(lines) + random.choice(("\n", ""))


def mutate_fences(text: str, random: Random, donor: str) -> str:
    """A rule file, one of whose models in `~~~` is damaged."""
    parts, others = text.split("~~~"), donor.split("~~~")
    fences = range(1, len(parts), 2)
    if not fences:
        return mutate_text(text, random, donor)
    at = random.choice(fences)
    other = random.choice(others[1::2] or [" "])
    parts[at] = mutate_text(parts[at], random, other).replace("~~~", "")
    return "~~~".join(parts)


def mutate_bytes(data: bytes, random: Random, donor: bytes) -> bytes:
    """Some bytes changed, left out, doubled, or taken from elsewhere."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        start = random.randrange(len(found) + 1)
        stop = start + random.choice((1, 1, 2, 8, 60))
        what = random.randrange(5)
        if what == 0:
            del found[start:stop]
        elif what == 1:
            found[start:start] = found[start:stop]
        elif what == 2:
            place = random.randrange(len(donor))
            found[start:stop] = donor[place : place + stop - start]
        elif what == 3:
            found[start:stop] = bytes(random.choice((0, 0xFF, random.randrange(256))) for _ in found[start:stop])
        elif start < len(found):
            found[start] ^= 1 << random.randrange(8)
    return bytes(found)


def _places(value: Any) -> Any:
    """Where something stands in lists and objects: what holds it, and its key."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    for key, one in items:
        yield value, key
        yield from _places(one)


def _other(value: Any, random: Random, places: Any) -> Any:
    holder, key = random.choice(places)
    taken = holder[key] if isinstance(holder, dict) or key < len(holder) else None
    simple = (
        None,
        True,
        0,
        -1,
        2**70,
        1e308,
        float("nan"),
        "",
        "x",
        "\ud800",
        "(1, 2)",
        "(1,",
        "1e400",
        "(" * 50,
        [],
        {},
        [[0, 0, 0]],
        [[-1]],
    )
    choices = (*simple, value + 1) if isinstance(value, int) else simple
    found = random.choice((*choices, taken, taken, taken, [value], str(value)))
    return json.loads(json.dumps(found))  # nothing stands in itself
