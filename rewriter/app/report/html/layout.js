// Where boxes go: a layered layout (Sugiyama's steps), each step linear or nearly so, because graphs have 20,000 nodes.
//
// The boxes come in the order of the graph, so an edge that runs against this order closes a cycle and is turned round.
// 1. layers by the longest path; 2. long edges get a stop in each layer they cross, very long ones none (they are drawn as stubs);
// 3. the order in a layer by the middle of the neighbours; 4. places as near to the neighbours as the order allows, by isotonic
// regression (pool adjacent violators), which is exact for each layer.
"use strict";

const LONGEST_ROUTE = 24; // layers that an edge may cross and still be drawn as a line
const GAP_X = 26, GAP_Y = 46, STOP_WIDTH = 8, SWEEPS = 6, PLACINGS = 10;

function layoutGraph({ widths, heights, sources, targets }) {
  const boxes = widths.length, edges = sources.length;
  const from = new Int32Array(edges), to = new Int32Array(edges), turned = new Uint8Array(edges);
  for (let e = 0; e < edges; e++) {
    turned[e] = sources[e] > targets[e] ? 1 : 0;
    from[e] = turned[e] ? targets[e] : sources[e];
    to[e] = turned[e] ? sources[e] : targets[e];
  }
  const layer = layersOf(boxes, from, to);
  const { items, itemLayer, itemWidth, up, down, routes, far } = withStops(widths, layer, from, to);
  const layers = orderedLayers(items, itemLayer, up, down);
  const x = placed(layers, itemWidth, up, down, boxes);
  const { top, bottom } = rows(layers, heights, boxes);
  const y = new Float32Array(items);
  for (let i = 0; i < items; i++) {
    const middle = (top[itemLayer[i]] + bottom[itemLayer[i]]) / 2;
    y[i] = i < boxes ? middle - heights[i] / 2 : middle;
  }
  return { x: x.slice(0, boxes), y: y.slice(0, boxes), lines: linesOf(routes, turned, x, y, heights, boxes, from, to), far, top, bottom };
}

function layersOf(boxes, from, to) {
  const layer = new Int32Array(boxes), edges = from.length;
  const first = starts(boxes, from), out = sortedBy(from, first);
  for (let b = 0; b < boxes; b++)
    for (let k = first[b]; k < first[b + 1]; k++)
      if (to[out[k]] !== b) layer[to[out[k]]] = Math.max(layer[to[out[k]]], layer[b] + 1);
  const nearest = new Int32Array(boxes).fill(1 << 30), fed = new Uint8Array(boxes);
  for (let e = 0; e < edges; e++) fed[to[e]] = 1;
  for (let e = 0; e < edges; e++) nearest[from[e]] = Math.min(nearest[from[e]], layer[to[e]]);
  for (let b = 0; b < boxes; b++) if (!fed[b] && nearest[b] < 1 << 30) layer[b] = nearest[b] - 1; // an input stands above its first reader
  return layer;
}

// Positions at which the entries of each value begin when sorted by value, and the entries in that order.
function starts(count, values) {
  const first = new Int32Array(count + 1);
  for (const value of values) first[value + 1]++;
  for (let i = 0; i < count; i++) first[i + 1] += first[i];
  return first;
}

function sortedBy(values, first) {
  const next = first.slice(), sorted = new Int32Array(values.length);
  for (let i = 0; i < values.length; i++) sorted[next[values[i]]++] = i;
  return sorted;
}

function withStops(widths, layer, from, to) {
  const itemLayer = Array.from(layer), itemWidth = Array.from(widths);
  const up = Array.from(widths, () => []), down = Array.from(widths, () => []);
  const routes = [], far = [];
  const join = (a, b) => { down[a].push(b); up[b].push(a); };
  for (let e = 0; e < from.length; e++) {
    const span = layer[to[e]] - layer[from[e]];
    if (span <= 0 || span > LONGEST_ROUTE) { if (from[e] !== to[e]) far.push(e); continue; }
    const route = [from[e]];
    for (let l = layer[from[e]] + 1; l < layer[to[e]]; l++) {
      const stop = itemLayer.push(l) - 1;
      itemWidth.push(STOP_WIDTH);
      up.push([]); down.push([]);
      join(route[route.length - 1], stop);
      route.push(stop);
    }
    join(route[route.length - 1], to[e]);
    route.push(to[e]);
    routes.push([e, route]);
  }
  return { items: itemLayer.length, itemLayer, itemWidth, up, down, routes, far };
}

function orderedLayers(items, itemLayer, up, down) {
  const layers = [];
  for (let i = 0; i < items; i++) (layers[itemLayer[i]] ||= []).push(i);
  for (let l = 0; l < layers.length; l++) layers[l] ||= [];
  const place = new Float64Array(items);
  const number = (line) => line.forEach((item, at) => { place[item] = at; });
  layers.forEach(number);
  const sorted = (line, neighbours) => {
    const middle = new Map();
    for (const item of line) {
      const around = neighbours[item];
      middle.set(item, around.length ? around.reduce((sum, other) => sum + place[other], 0) / around.length : place[item]);
    }
    line.sort((a, b) => middle.get(a) - middle.get(b) || place[a] - place[b]);
    number(line);
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    if (sweep % 2 === 0) for (let l = 1; l < layers.length; l++) sorted(layers[l], up);
    else for (let l = layers.length - 2; l >= 0; l--) sorted(layers[l], down);
  }
  return layers;
}

function placed(layers, width, up, down, boxes) {
  const x = new Float32Array(width.length);
  for (const line of layers) {
    let at = 0;
    for (const item of line) { x[item] = at + width[item] / 2; at += width[item] + GAP_X; }
    for (const item of line) x[item] -= at / 2;
  }
  const weight = (item, other) => (item >= boxes && other >= boxes ? 8 : item >= boxes || other >= boxes ? 2 : 1);
  const draw = (line, neighbours, others) => {
    const wanted = [], heavy = [];
    for (const item of line) {
      let sum = 0, total = 0;
      for (const side of others ? [neighbours, others] : [neighbours])
        for (const other of side[item]) { const w = weight(item, other); sum += w * x[other]; total += w; }
      wanted.push(total ? sum / total : x[item]);
      heavy.push(total || 0.1);
    }
    separate(line, wanted, heavy, width, x);
  };
  for (let round = 0; round < PLACINGS; round++) {
    const both = round >= PLACINGS - 3;
    if (round % 2 === 0) for (let l = 1; l < layers.length; l++) draw(layers[l], up, both && down);
    else for (let l = layers.length - 2; l >= 0; l--) draw(layers[l], down, both && up);
  }
  return x;
}

// Places of least squared distance from the wanted ones that keep the order and the gaps.
function separate(line, wanted, heavy, width, x) {
  const offset = [0];
  for (let i = 1; i < line.length; i++) offset[i] = offset[i - 1] + (width[line[i - 1]] + width[line[i]]) / 2 + GAP_X;
  const blocks = []; // [sum of weight * value, weight, count]
  for (let i = 0; i < line.length; i++) {
    let block = [(wanted[i] - offset[i]) * heavy[i], heavy[i], 1];
    while (blocks.length && blocks[blocks.length - 1][0] / blocks[blocks.length - 1][1] > block[0] / block[1]) {
      const last = blocks.pop();
      block = [last[0] + block[0], last[1] + block[1], last[2] + block[2]];
    }
    blocks.push(block);
  }
  let i = 0;
  for (const [sum, total, count] of blocks)
    for (let k = 0; k < count; k++, i++) x[line[i]] = sum / total + offset[i];
}

function rows(layers, heights, boxes) {
  const top = new Float32Array(layers.length), bottom = new Float32Array(layers.length);
  let y = 0;
  layers.forEach((line, l) => {
    let tallest = 8;
    for (const item of line) if (item < boxes) tallest = Math.max(tallest, heights[item]);
    top[l] = y;
    bottom[l] = y + tallest;
    y += tallest + GAP_Y + Math.min(60, line.length / 4); // room for the slanted lines of a wide layer
  });
  return { top, bottom };
}

// For each drawn edge its number and its points, from the source's lower rim to the target's upper one.
function linesOf(routes, turned, x, y, heights, boxes, from, to) {
  return routes.map(([e, route]) => {
    const points = [];
    route.forEach((item, at) => {
      const isBox = item < boxes;
      points.push(x[item], isBox ? (at === 0 ? y[item] + heights[item] : y[item]) : y[item]);
    });
    if (turned[e]) { const back = []; for (let i = points.length - 2; i >= 0; i -= 2) back.push(points[i], points[i + 1]); return [e, back]; }
    return [e, points];
  });
}

if (typeof module !== "undefined") module.exports = { layoutGraph };
