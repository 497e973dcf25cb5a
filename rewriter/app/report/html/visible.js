// What is visible of a graph: nodes, and the modules that are folded, as boxes whose texts are cut to fit.
// The page draws them; where they go is layout.js's.
"use strict";

const ROWS = 4, LINE = 15, WIDEST = 260, NARROWEST = 64, PADDING = 10, LABEL_ROOM = 20;
const FOLDED_ABOVE = 200, FIRST_BOXES = 40, RUN = 24; // nodes; boxes of a folded graph; loose nodes that are folded together
const TITLE = "600 12.5px system-ui, sans-serif", MONO = "10.5px ui-monospace, Menlo, Consolas, monospace", SMALL = "10px ui-monospace, Menlo, Consolas, monospace";
const FAMILIES = [
  ["conv", "products", /^(Conv|ConvTranspose|ConvInteger|DeformConv|Gemm|MatMul|MatMulInteger|Einsum|LSTM|GRU|RNN|.*Attention.*)$/],
  ["norm", "normalization", /Normalization$|^(LRN|Dropout|MeanVarianceNormalization)$/],
  ["pool", "pooling, reduction", /Pool$|^Reduce|^(ArgMax|ArgMin|TopK|CumSum)$/],
  ["act", "activation", /^(Relu|LeakyRelu|PRelu|Elu|Selu|Celu|Sigmoid|HardSigmoid|HardSwish|Tanh|Gelu|Erf|Clip|Softmax|LogSoftmax|Softplus|Softsign|ThresholdedRelu|Mish|Swish)$/],
  ["move", "shape, movement", /^(Reshape|Transpose|Flatten|Squeeze|Unsqueeze|Concat|Split|Slice|Gather.*|Scatter.*|Expand|Tile|Pad|Shape|Size|Identity|Cast.*|Constant.*|Resize|Upsample|DepthToSpace|SpaceToDepth|Range|OneHot)$/],
  ["flow", "control flow", /^(If|Loop|Scan|Sequence.*|Optional.*)$/],
  ["quant", "quantization", /Quantize|QLinear|^Q[A-Z]/],
];
const familyOf = (op) => (FAMILIES.find(([, , ops]) => ops.test(op)) || ["other"])[0];
const WORST = ["finding", "removed", "added", "edited", "rewritten"];
const worst = (notes) => WORST.find((status) => notes.some((note) => note[0] === status)) || "";

class Visible {
  constructor(graph, measure) { // `measure(text, font)` is a width in pixels
    Object.assign(this, { graph, measure });
    this.producer = new Map();
    this.readers = new Map();
    this.drawn = graph.nodes.map(([op]) => op !== "Constant"); // constants stand in the boxes of their readers
    graph.nodes.forEach(([, , inputs, outputs], n) => {
      for (const t of outputs) if (t >= 0) this.producer.set(t, n);
      for (const t of new Set(inputs)) if (t >= 0) this.readers.set(t, [...(this.readers.get(t) || []), n]);
    });
    const counts = new Map(), keys = (modules) => modules.map((_, i) => modules.slice(0, i + 1).join("/"));
    const paths = graph.nodes.map(([, , , , , modules], n) => (this.drawn[n] ? keys(modules) : []));
    for (const path of paths) for (const key of path) counts.set(key, (counts.get(key) || 0) + 1);
    this.chains = paths.map((path) => path.filter((key) => counts.get(key) > 1)); // the groups around each node, outermost first
    this.titles = new Map();
    const large = this.drawn.filter(Boolean).length > FOLDED_ABOVE;
    if (large) this.addRuns();
    this.inside = new Map(); // what unfolding a group shows
    this.sizes = new Map(); // its nodes
    this.chains.forEach((chain, n) => chain.forEach((key, i) => {
      if (!this.inside.has(key)) this.inside.set(key, new Set());
      this.sizes.set(key, (this.sizes.get(key) || 0) + 1);
      this.inside.get(key).add(i + 1 < chain.length ? chain[i + 1] : n);
    }));
    this.open = new Set();
    this.unfold(large ? FIRST_BOXES : Infinity);
  }
  addRuns() { // many nodes of one module, or of none, are folded by the order of the graph, so that no fold feeds itself
    const home = (n) => this.chains[n][this.chains[n].length - 1] || "", nodes = [...this.chains.keys()].filter((n) => this.drawn[n]);
    const loose = new Map(), runs = [];
    for (const n of nodes) loose.set(home(n), (loose.get(home(n)) || 0) + 1);
    nodes.forEach((n, i) => {
      if (!i || home(n) !== home(nodes[i - 1]) || runs[runs.length - 1].length >= Math.max(RUN, loose.get(home(n)) / FIRST_BOXES)) runs.push([]);
      runs[runs.length - 1].push(n);
    });
    for (const run of runs.filter((run) => run.length > 1 && loose.get(home(run[0])) > 2 * RUN)) {
      const key = `${home(run[0])}/#${run[0]}`, [first, last] = [run[0], run[run.length - 1]].map((n) => this.graph.nodes[n][1].split("/").pop());
      this.titles.set(key, `${first} \u2026 ${last}`);
      for (const n of run) this.chains[n].push(key);
    }
  }
  boxKey(n) {
    for (const key of this.chains[n]) if (!this.open.has(key)) return key;
    return n;
  }
  unfold(most) { // the largest groups first, and groups of like size together, until there are `most` boxes
    const shown = new Set(this.chains.map((_, n) => this.boxKey(n)).filter((key) => typeof key === "string" || this.drawn[key]));
    for (;;) {
      const groups = [...shown].filter((key) => typeof key === "string"), largest = Math.max(...groups.map((key) => this.sizes.get(key)));
      const alike = groups.filter((key) => this.sizes.get(key) >= 0.8 * largest), more = alike.reduce((sum, key) => sum + this.inside.get(key).size - 1, 0);
      if (!alike.length || shown.size + more > most) return;
      for (const key of alike) { this.open.add(key); shown.delete(key); this.inside.get(key).forEach((one) => shown.add(one)); }
    }
  }
  stands(n) { return this.drawn[n] ? n : (this.readers.get(this.graph.nodes[n][3][0]) || [-1])[0]; } // a constant is in the box of its reader
  around(n) { // the node and those near it, nearest first
    const near = new Set([n]);
    for (const m of near) {
      if (near.size > 60) break;
      for (const t of this.graph.nodes[m][3]) (this.readers.get(t) || []).forEach((reader) => near.add(reader));
      for (const t of this.graph.nodes[m][2]) if (this.producer.has(t)) near.add(this.producer.get(t));
    }
    return [...near].filter((m) => this.drawn[m]);
  }
  reveal(n) { this.chains[n].forEach((key) => this.open.add(key)); }
  build() {
    const { graph } = this, boxes = [], at = new Map();
    graph.inputs.forEach((t) => { at.set(`i${t}`, boxes.length); boxes.push({ sort: "port", title: graph.tensors[t], rows: [graph.types[t] || ""], tensor: t }); });
    graph.nodes.forEach((node, n) => {
      if (!this.drawn[n]) return;
      const key = this.boxKey(n);
      if (!at.has(key)) { at.set(key, boxes.length); boxes.push(typeof key === "string" ? { sort: "group", title: this.titles.get(key) || key.split("/").pop(), key, nodes: [] } : this.nodeBox(n)); }
      const box = boxes[at.get(key)];
      if (box.sort === "group") box.nodes.push(n);
    });
    graph.outputs.forEach((t, i) => { at.set(`o${i}`, boxes.length); boxes.push({ sort: "port", title: graph.tensors[t] || "", rows: [graph.types[t] || ""], tensor: t }); });
    const edges = new Map();
    const join = (source, target, t) => {
      if (source === undefined || target === undefined || source === target) return;
      const key = source * 1e6 + target;
      if (edges.has(key)) edges.get(key).tensors.push(t); else edges.set(key, { source, target, tensors: [t] });
    };
    const made = (t) => (t in graph.weights ? undefined : this.producer.has(t) ? at.get(this.boxKey(this.producer.get(t))) : at.get(`i${t}`));
    graph.nodes.forEach(([, , inputs], n) => { if (!this.drawn[n]) return; const target = at.get(this.boxKey(n)); for (const t of inputs) if (t >= 0) join(made(t), target, t); });
    graph.outputs.forEach((t, i) => join(made(t), at.get(`o${i}`), t));
    const types = boxes.map(() => new Set());
    for (const { source, tensors } of edges.values()) if (boxes[source].sort !== "port") for (const t of tensors) if (graph.types[t]) types[source].add(graph.types[t]);
    boxes.forEach((box, b) => this.finish(box, [...types[b]].join(", ")));
    this.at = at;
    return { boxes, edges: [...edges.values()] };
  }
  nodeBox(n) {
    const [op, name, inputs, , attributes, , notes] = this.graph.nodes[n];
    const rows = attributes.filter(([, , same]) => !same).map(([key, value]) => `${key} = ${value}`);
    inputs.forEach((t) => { if (t in this.graph.weights) rows.push(this.graph.weights[t]); });
    return { sort: "node", title: op, name, rows: rows.length > ROWS ? [...rows.slice(0, ROWS - 1), `and ${rows.length - ROWS + 1} more`] : rows, node: n, status: worst(notes), family: familyOf(op) };
  }
  cost(nodes) { // parameters and MACs, in words
    const sums = [0, 1].map((k) => nodes.reduce((sum, n) => sum + this.graph.nodes[n][7][k], 0));
    return [[sums[0], "parameters"], [sums[1], "MACs"]].filter(([sum]) => sum).map(([sum, word]) => `${quantity(sum)} ${word}`);
  }
  finish(box, label) { // the size of a box, by its texts and by the types below it, and the texts as they are drawn
    const { measure } = this;
    if (box.sort === "group") {
      box.rows = [`${box.nodes.length} nodes`, ...this.cost(box.nodes)];
      box.status = worst(box.nodes.flatMap((n) => this.graph.nodes[n][6]));
    }
    const texts = [[box.title, TITLE], ...(box.name ? [[box.name, MONO]] : []), ...box.rows.filter(Boolean).map((row) => [row, MONO])];
    const width = Math.max(...texts.map(([text, font]) => measure(text, font) + 2 * PADDING), measure(label, SMALL) - LABEL_ROOM, NARROWEST);
    box.width = Math.ceil(Math.min(WIDEST, width));
    box.height = 12 + LINE * texts.length;
    box.lines = texts.map(([text, font], i) => fitted(text, box.width - 2 * PADDING, font, measure, i === 1 && box.name));
    box.label = fitted(label, box.width + LABEL_ROOM, SMALL, measure);
  }
}

function quantity(count) { // 24,487 is "24.5 K"
  const unit = [["T", 1e12], ["G", 1e9], ["M", 1e6], ["K", 1e3]].find(([, size]) => count >= size);
  return unit ? `${(count / unit[1]).toPrecision(3)} ${unit[0]}` : String(count);
}

// A text cut to a width, at its end or, for names, which differ at their ends, at its beginning.
function fitted(text, room, font, measure, keepEnd) {
  let length = Math.min(text.length, 200), shown, width; // models of strangers have long texts
  do {
    shown = length === text.length ? text : keepEnd ? `\u2026${text.slice(text.length - length)}` : `${text.slice(0, length)}\u2026`;
    width = measure(shown, font);
  } while (width > room && (length = Math.min(length - 1, Math.ceil((length * room) / width))) > 0);
  return shown;
}

if (typeof module !== "undefined") module.exports = { Visible, fitted, quantity };
