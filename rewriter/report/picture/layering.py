"""Which layer each shape of a picture stands in, and in which order: the first two steps of a layered drawing.

The way is that of Sugiyama, Tagawa and Toda (1981): layers by longest path, edges that cross layers cut into pieces by
invisible places, and orders by barycenters, swept down and up; the order with the fewest crossings is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

SWEEPS = 12

Place = str
Pieces = list[tuple[Place, Place]]


def layer_numbers(shapes: Sequence[Place], edges: Iterable[tuple[Place, Place]]) -> dict[Place, int]:
    """The layer of each shape, from 0; edges lead down. An edge that would close a circle does not count."""
    below: dict[Place, list[Place]] = {shape: [] for shape in shapes}
    for source, target in edges:
        if source != target and target not in below[source]:
            below[source].append(target)
    order = _topological(shapes, below)
    position = {shape: number for number, shape in enumerate(order)}
    found = dict.fromkeys(order, 0)
    for shape in order:
        for target in below[shape]:
            if position[target] > position[shape]:
                found[target] = max(found[target], found[shape] + 1)
    above = {target for shape in order for target in below[shape] if position[target] > position[shape]}
    for shape in reversed(order):  # what nothing leads to stands right above the first that reads it
        targets = [found[target] for target in below[shape] if position[target] > position[shape]]
        if shape not in above and targets:
            found[shape] = min(targets) - 1
    return found


def _topological(shapes: Sequence[Place], below: Mapping[Place, Sequence[Place]]) -> list[Place]:
    """Depth first, without recursion; where there are circles, some order."""
    done: dict[Place, bool] = {}
    order: list[Place] = []
    for start in reversed(shapes):
        stack = [(start, False)]
        while stack:
            shape, left = stack.pop()
            if left:
                order.append(shape)
            elif shape not in done:
                done[shape] = True
                stack.append((shape, True))
                stack.extend((target, False) for target in below[shape] if target not in done)
    return order[::-1]


def with_places(
    layers: Mapping[Place, int], edges: Sequence[tuple[Place, Place]]
) -> tuple[list[list[Place]], Pieces, list[list[Place]]]:
    """Layers with invisible places in them, edges between neighbouring layers, and the route of each edge."""
    rows: list[list[Place]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for shape, number in layers.items():
        rows[number].append(shape)
    pieces: Pieces = []
    routes: list[list[Place]] = []
    for count, (source, target) in enumerate(edges):
        step = 1 if layers[target] >= layers[source] else -1
        route = [source]
        for number in range(layers[source] + step, layers[target], step):
            route.append(f"\0{count}.{number}")
            rows[number].append(route[-1])
        route.append(target)
        routes.append(route)
        pieces.extend(pair if step > 0 else pair[::-1] for pair in pairwise(route) if pair[0] != pair[1])
    return rows, pieces, routes


def ordered(rows: Sequence[Sequence[Place]], pieces: Pieces) -> list[list[Place]]:
    """The layers with their shapes in an order with few crossings."""
    above: dict[Place, list[Place]] = {}
    below: dict[Place, list[Place]] = {}
    for upper, lower in pieces:
        above.setdefault(lower, []).append(upper)
        below.setdefault(upper, []).append(lower)
    now = [list(row) for row in rows]
    best, fewest = [list(row) for row in now], _crossings(now, below)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for number in range(1, len(now)) if down else range(len(now) - 2, -1, -1):
            fixed = now[number - 1] if down else now[number + 1]
            _sort(now[number], {place: float(i) for i, place in enumerate(fixed)}, above if down else below)
        count = _crossings(now, below)
        if count < fewest:
            best, fewest = [list(row) for row in now], count
    return best


def _sort(row: list[Place], fixed: Mapping[Place, float], near: Mapping[Place, Sequence[Place]]) -> None:
    """Sorts a layer by where the neighbours in the fixed layer stand; what has none stays where it is."""
    means = {}
    for number, place in enumerate(row):
        at = [fixed[other] for other in near.get(place, ()) if other in fixed]
        means[place] = sum(at) / len(at) if at else float(number)
    row.sort(key=means.__getitem__)


def _crossings(rows: Sequence[Sequence[Place]], below: Mapping[Place, Sequence[Place]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        position = {place: number for number, place in enumerate(lower)}
        ends: list[int] = []
        for place in upper:
            targets = sorted(position[target] for target in below.get(place, ()) if target in position)
            total += sum(len(ends) - bisect_left(ends, target + 1) for target in targets)
            for target in targets:
                insort(ends, target)
    return total
