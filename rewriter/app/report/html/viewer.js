// The page's behaviour: what is visible of a graph (modules may be folded), drawing it on a canvas, search, and the panel beside it.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const ROWS = 4, LINE = 15, CHAR = 6.6, WIDEST = 240, FIRST_BOXES = 160, HITS = 200;
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

const worker = (() => {
  const text = document.getElementById("layout").textContent + "\nonmessage=(e)=>postMessage([e.data[0],layoutGraph(e.data[1])]);";
  const made = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  const waiting = new Map();
  let next = 0;
  made.onmessage = ({ data: [number, result] }) => { waiting.get(number)(result); waiting.delete(number); };
  return (input) => new Promise((resolve) => { waiting.set(next, resolve); made.postMessage([next++, input]); });
})();

// What is to be seen of one graph: boxes and edges between them.
class Visible {
  constructor(graph) {
    this.graph = graph;
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
    this.inside = new Map(); // what unfolding a group shows
    this.chains.forEach((chain, n) => chain.forEach((key, i) => {
      if (!this.inside.has(key)) this.inside.set(key, new Set());
      this.inside.get(key).add(i + 1 < chain.length ? chain[i + 1] : n);
    }));
    this.open = new Set();
    this.unfold(FIRST_BOXES);
  }
  boxKey(n) {
    for (const key of this.chains[n]) if (!this.open.has(key)) return key;
    return n;
  }
  unfold(most) { // the outermost groups first, as long as there is room
    let waiting = [...new Set(this.chains.map((_, n) => this.boxKey(n)).filter((key) => typeof key === "string" || this.drawn[key]))], count = waiting.length;
    while (waiting.length) {
      const next = [];
      for (const key of waiting.filter((key) => typeof key === "string").sort((a, b) => this.inside.get(a).size - this.inside.get(b).size)) {
        const more = this.inside.get(key).size - 1;
        if (count + more > most) continue;
        this.open.add(key);
        count += more;
        next.push(...this.inside.get(key));
      }
      waiting = next;
    }
  }
  reveal(n) { this.chains[n].forEach((key) => this.open.add(key)); }
  build() {
    const { graph } = this, boxes = [], at = new Map();
    graph.inputs.forEach((t) => { at.set(`i${t}`, boxes.length); boxes.push({ sort: "port", title: graph.tensors[t], rows: [graph.types[t] || ""], tensor: t }); });
    graph.nodes.forEach((node, n) => {
      if (!this.drawn[n]) return;
      const key = this.boxKey(n);
      if (!at.has(key)) { at.set(key, boxes.length); boxes.push(typeof key === "string" ? { sort: "group", title: key.split("/").pop(), key, nodes: [] } : this.nodeBox(n)); }
      const box = boxes[at.get(key)];
      if (box.sort === "group") box.nodes.push(n);
    });
    graph.outputs.forEach((t, i) => { at.set(`o${i}`, boxes.length); boxes.push({ sort: "port", title: graph.tensors[t] || "", rows: [graph.types[t] || ""], tensor: t }); });
    for (const box of boxes) this.finish(box);
    const edges = new Map();
    const join = (source, target, t) => {
      if (source === undefined || target === undefined || source === target) return;
      const key = source * 1e6 + target;
      if (edges.has(key)) edges.get(key).tensors.push(t); else edges.set(key, { source, target, tensors: [t] });
    };
    const made = (t) => (t in graph.weights ? undefined : this.producer.has(t) ? at.get(this.boxKey(this.producer.get(t))) : at.get(`i${t}`));
    graph.nodes.forEach(([, , inputs], n) => { if (!this.drawn[n]) return; const target = at.get(this.boxKey(n)); for (const t of inputs) if (t >= 0) join(made(t), target, t); });
    graph.outputs.forEach((t, i) => join(made(t), at.get(`o${i}`), t));
    this.at = at;
    return { boxes, edges: [...edges.values()] };
  }
  nodeBox(n) {
    const [op, name, inputs, , attributes, , notes] = this.graph.nodes[n];
    const rows = attributes.filter(([, , same]) => !same).map(([key, value]) => `${key} = ${value}`);
    inputs.forEach((t) => { if (t in this.graph.weights) rows.push(this.graph.weights[t]); });
    return { sort: "node", title: op, name, rows: rows.length > ROWS ? [...rows.slice(0, ROWS - 1), `and ${rows.length - ROWS + 1} more`] : rows, node: n, status: worst(notes), family: familyOf(op) };
  }
  finish(box) {
    if (box.sort === "group") {
      box.rows = [`${box.nodes.length} nodes`];
      box.status = worst(box.nodes.flatMap((n) => this.graph.nodes[n][6]));
    }
    box.rows = box.rows.filter(Boolean);
    const letters = Math.max(box.title.length * 1.15, (box.name || "").length * 0.92, ...box.rows.map((row) => row.length * 0.92), 8);
    box.width = Math.min(WIDEST, letters * CHAR + 24);
    box.height = 12 + LINE * (1 + (box.name ? 1 : 0) + box.rows.length);
  }
}

class Pane {
  constructor(model, host, page) {
    Object.assign(this, { model, page, scale: 1, x: 0, y: 0, selected: -1, turn: 0 });
    host.innerHTML = '<div class="bar"><span></span><select aria-label="graph"></select><button type="button"></button></div><canvas tabindex="0" role="img"></canvas><div class="wait" role="status">laying out</div>';
    [this.bar, this.canvas, this.wait] = host.children;
    const [caption, choice, fold] = this.bar.children;
    caption.textContent = model.about[0][1];
    this.choice = choice;
    model.graphs.forEach((graph, g) => choice.add(new Option(`${graph.path} (${graph.nodes.length})`, g)));
    choice.onchange = () => this.show(Number(choice.value));
    this.fold = fold;
    fold.onclick = () => { this.visible.open.size ? this.visible.open.clear() : this.visible.unfold(1e9); this.layout(true); };
    this.views = model.graphs.map(() => null);
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    this.listen();
    this.show(0);
  }
  get graph() { return this.visible.graph; }
  show(g) {
    this.choice.value = g;
    this.visible = this.views[g] ||= new Visible(this.model.graphs[g]);
    this.selected = -1;
    return this.layout(true);
  }
  async layout(fit) {
    const turn = ++this.turn;
    this.wait.hidden = false;
    const { boxes, edges } = this.visible.build();
    const laid = await worker({
      widths: Float32Array.from(boxes, (box) => box.width), heights: Float32Array.from(boxes, (box) => box.height),
      sources: Int32Array.from(edges, (edge) => edge.source), targets: Int32Array.from(edges, (edge) => edge.target),
    });
    if (turn !== this.turn) return;
    Object.assign(this, { boxes, edges, laid });
    this.layerBoxes = laid.top.length ? Array.from(laid.top, () => []) : [];
    boxes.forEach((box, b) => { box.x = laid.x[b]; box.y = laid.y[b]; this.layerBoxes[this.layerAt(box.y + box.height / 2)].push(b); });
    this.segments = Array.from(laid.top, () => []);
    laid.lines.forEach(([, points], line) => { for (let k = 0; k + 3 < points.length; k += 2) this.segments[this.layerAt(Math.min(points[k + 1], points[k + 3]))].push(line, k); });
    this.fold.textContent = this.visible.inside.size ? (this.visible.open.size ? "fold modules" : "unfold modules") : "";
    this.fold.hidden = !this.visible.inside.size;
    this.canvas.setAttribute("aria-label", `Graph ${this.graph.path} of ${this.graph.nodes.length} nodes; the search field lists them`);
    this.wait.hidden = true;
    if (fit) this.fit();
    this.draw();
    document.documentElement.dataset.ready = String(Number(document.documentElement.dataset.ready || 0) + 1);
  }
  layerAt(y) { // the last layer that begins at or above y
    const { top } = this.laid;
    let low = 0, high = top.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (top[middle] <= y + 0.01) low = middle; else high = middle - 1; }
    return low;
  }
  resize() {
    const ratio = window.devicePixelRatio || 1, { clientWidth, clientHeight } = this.canvas;
    this.canvas.width = clientWidth * ratio; this.canvas.height = clientHeight * ratio;
    if (this.boxes && !this.moved) this.fit();
    this.draw();
  }
  fit() {
    const { canvas, boxes, laid } = this;
    if (!boxes || !boxes.length || !canvas.clientWidth) return;
    const left = Math.min(...boxes.map((b) => b.x - b.width / 2)), right = Math.max(...boxes.map((b) => b.x + b.width / 2));
    const height = laid.bottom[laid.bottom.length - 1];
    const whole = Math.min(canvas.clientWidth / (right - left + 60), canvas.clientHeight / (height + 60));
    this.scale = Math.min(1, Math.max(whole, 0.5)); // a deep graph starts at its inputs, to be read
    this.x = canvas.clientWidth / 2 - ((whole >= 0.5 ? (left + right) / 2 : boxes[0].x) * this.scale);
    this.y = 24;
    this.moved = false;
  }
  draw() { if (!this.due) { this.due = true; requestAnimationFrame(() => { this.due = false; this.paint(); }); } }
  paint() {
    if (!this.boxes) return;
    const { canvas, laid, scale, x, y } = this, context = canvas.getContext("2d"), ratio = canvas.width / canvas.clientWidth, c = this.page.colors;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = c.bg; context.fillRect(0, 0, canvas.width, canvas.height);
    context.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * x, ratio * y);
    const from = this.layerAt(-y / scale - 400), to = this.layerAt((canvas.clientHeight - y) / scale);
    const left = -x / scale, right = (canvas.clientWidth - x) / scale;
    this.paintLines(context, Math.max(0, from - 1), to, left, right);
    const words = scale > 0.32;
    for (let l = from; l <= to; l++)
      for (const b of this.layerBoxes[l]) {
        const box = this.boxes[b];
        if (box.x + box.width / 2 < left || box.x - box.width / 2 > right) continue;
        this.paintBox(context, box, b === this.selected, words);
      }
    if (scale > 0.55) this.paintStubs(context, from, to);
  }
  paintLines(context, from, to, left, right) {
    const c = this.page.colors, { laid } = this, curved = this.scale > 0.2;
    context.lineWidth = Math.max(1, 0.6 / this.scale); context.strokeStyle = c.line; context.beginPath();
    const labels = [];
    for (let l = from; l <= to; l++) {
      const list = this.segments[l];
      for (let i = 0; i < list.length; i += 2) {
        const [e, points] = laid.lines[list[i]], k = list[i + 1];
        const x1 = points[k], y1 = points[k + 1], x2 = points[k + 2], y2 = points[k + 3];
        if (Math.max(x1, x2) < left || Math.min(x1, x2) > right) continue;
        context.moveTo(x1, y1);
        if (curved && x1 !== x2) context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2); else context.lineTo(x2, y2);
        if (k + 4 === points.length) { context.moveTo(x2 - 3.5, y2 - 6); context.lineTo(x2, y2); context.lineTo(x2 + 3.5, y2 - 6); }
        if (k === 0) labels.push([e, x1, y1]);
      }
    }
    context.stroke();
    if (this.selected >= 0) this.paintChosen(context);
    if (this.scale < 0.7) return;
    context.font = "10px ui-monospace, Menlo, Consolas, monospace"; context.fillStyle = c.dim; context.textAlign = "left";
    const told = new Set();
    for (const [e, x1, y1] of labels) {
      const { source, tensors } = this.edges[e], type = tensors.length > 1 ? `${tensors.length} tensors` : this.graph.types[tensors[0]];
      if (!type || told.has(source + type)) continue;
      told.add(source + type);
      context.fillText(short(type, 30), x1 + 5, y1 + 13);
    }
  }
  paintChosen(context) {
    context.strokeStyle = this.page.colors.same; context.lineWidth = 2 / Math.min(1, this.scale); context.beginPath();
    for (const [e, points] of this.laid.lines) {
      const { source, target } = this.edges[e];
      if (source !== this.selected && target !== this.selected) continue;
      context.moveTo(points[0], points[1]);
      for (let k = 2; k < points.length; k += 2) context.bezierCurveTo(points[k - 2], (points[k - 1] + points[k + 1]) / 2, points[k], (points[k - 1] + points[k + 1]) / 2, points[k], points[k + 1]);
    }
    context.stroke();
  }
  paintBox(context, box, chosen, words) {
    const c = this.page.colors, left = box.x - box.width / 2, ink = box.status ? c[box.status] : box.sort === "node" ? c[box.family] : c.line;
    context.fillStyle = box.status ? c[`${box.status}Bg`] : box.sort === "group" ? c.group : box.sort === "port" ? c.bg : c.box;
    context.strokeStyle = chosen ? c.same : ink; context.lineWidth = chosen ? 3 : box.status ? 2 : 1.2;
    context.beginPath();
    if (this.scale > 0.25) context.roundRect(left, box.y, box.width, box.height, box.sort === "port" ? box.height / 2 : 6); else context.rect(left, box.y, box.width, box.height);
    context.fill(); context.stroke();
    if (!words) return;
    if (box.sort === "group") context.strokeRect(left + 3, box.y + 3, box.width - 6, box.height - 6);
    const room = Math.floor((box.width - 16) / CHAR);
    context.textAlign = "left"; context.fillStyle = box.sort === "node" || box.status ? ink : c.ink;
    context.font = "600 12.5px system-ui, sans-serif";
    context.fillText(short(box.title, room), left + 10, box.y + 18);
    let y = box.y + 18;
    if (box.name) { context.font = "10.5px ui-monospace, Menlo, Consolas, monospace"; context.fillStyle = c.dim; context.fillText(short(box.name, room, true), left + 10, (y += LINE)); }
    context.font = "10.5px ui-monospace, Menlo, Consolas, monospace"; context.fillStyle = c.ink;
    for (const row of box.rows) context.fillText(short(row, room), left + 10, (y += LINE));
  }
  paintStubs(context, from, to) { // edges over many layers: where they go, in words
    const c = this.page.colors, low = this.laid.top[from], high = this.laid.bottom[to];
    context.fillStyle = c.same; context.font = "10px system-ui, sans-serif"; context.textAlign = "center";
    for (const e of this.laid.far) {
      const source = this.boxes[this.edges[e].source], target = this.boxes[this.edges[e].target];
      if (source.y >= low && source.y <= high) context.fillText(`\u2193 ${short(target.name || target.title, 26, true)}`, source.x, source.y + source.height + 24);
      if (target.y >= low && target.y <= high) context.fillText(`\u2193 ${short(source.name || source.title, 26, true)}`, target.x, target.y - 6);
    }
  }
  at(px, py) {
    const wx = (px - this.x) / this.scale, wy = (py - this.y) / this.scale, l = this.layerAt(wy);
    return (this.layerBoxes[l] || []).find((b) => { const box = this.boxes[b]; return Math.abs(wx - box.x) <= box.width / 2 && wy >= box.y && wy <= box.y + box.height; }) ?? -1;
  }
  zoom(factor, px = this.canvas.clientWidth / 2, py = this.canvas.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.01, this.scale * factor));
    this.x = px - ((px - this.x) * scale) / this.scale; this.y = py - ((py - this.y) * scale) / this.scale; this.scale = scale; this.moved = true;
    this.draw();
  }
  center(b) {
    const box = this.boxes[b];
    this.scale = Math.max(this.scale, 0.8);
    this.x = this.canvas.clientWidth / 2 - box.x * this.scale; this.y = this.canvas.clientHeight / 2 - (box.y + box.height / 2) * this.scale; this.moved = true;
    this.draw();
  }
  select(b) { this.selected = b; this.page.tell(this, b < 0 ? null : this.boxes[b]); this.draw(); }
  async go(g, n) {
    if (this.model.graphs[g] !== this.graph) await this.show(g);
    if (!this.visible.drawn[n]) n = (this.visible.readers.get(this.graph.nodes[n][3][0]) || [-1])[0];
    if (n < 0) return;
    if (this.visible.boxKey(n) !== n) { this.visible.reveal(n); await this.layout(false); }
    const b = this.visible.at.get(n);
    this.select(b); this.center(b);
  }
  toggle(b) {
    const box = this.boxes[b];
    if (box.sort === "group") this.visible.open.add(box.key);
    else if (box.sort === "node") {
      const inner = this.visible.chains[box.node].filter((key) => this.visible.open.has(key)).pop();
      if (inner === undefined) return;
      for (const key of [...this.visible.open]) if (key === inner || key.startsWith(`${inner}/`)) this.visible.open.delete(key);
    } else return;
    this.selected = -1; this.layout(false);
  }
  listen() {
    const { canvas } = this, down = new Map();
    let drag = null, pinch = 0;
    canvas.onpointerdown = (e) => { canvas.setPointerCapture(e.pointerId); down.set(e.pointerId, e); drag = { x: e.offsetX, y: e.offsetY, moved: false }; pinch = 0; };
    canvas.onpointermove = (e) => {
      if (!down.has(e.pointerId)) return;
      down.set(e.pointerId, e);
      if (down.size === 2) {
        const [a, b] = [...down.values()], apart = Math.hypot(a.offsetX - b.offsetX, a.offsetY - b.offsetY);
        if (pinch) this.zoom(apart / pinch, (a.offsetX + b.offsetX) / 2, (a.offsetY + b.offsetY) / 2);
        pinch = apart; drag.moved = true;
        return;
      }
      if (Math.hypot(e.offsetX - drag.x, e.offsetY - drag.y) < 3 && !drag.moved) return;
      this.x += e.offsetX - drag.x; this.y += e.offsetY - drag.y; drag = { x: e.offsetX, y: e.offsetY, moved: true }; this.moved = true;
      this.draw();
    };
    canvas.onpointerup = canvas.onpointercancel = (e) => { down.delete(e.pointerId); pinch = 0; if (drag && !drag.moved) this.select(this.at(e.offsetX, e.offsetY)); drag = null; };
    canvas.ondblclick = (e) => { const b = this.at(e.offsetX, e.offsetY); if (b >= 0) this.toggle(b); };
    canvas.onwheel = (e) => { e.preventDefault(); this.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), e.offsetX, e.offsetY); };
    canvas.onkeydown = (e) => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60], PageUp: [0, 500], PageDown: [0, -500] }[e.key];
      if (step) { this.x += step[0]; this.y += step[1]; this.moved = true; this.draw(); }
      else if (e.key === "+" || e.key === "=") this.zoom(1.25);
      else if (e.key === "-") this.zoom(0.8);
      else if (e.key === "f" || e.key === "0") { this.fit(); this.draw(); }
      else if (e.key === "Enter" && this.selected >= 0) this.toggle(this.selected);
      else if (e.key === "Escape") this.select(-1);
      else return;
      e.preventDefault();
    };
  }
}

function short(text, room, keepEnd) {
  if (text.length <= room) return text;
  return keepEnd ? `\u2026${text.slice(text.length - room + 1)}` : `${text.slice(0, room - 1)}\u2026`;
}

// Elements without markup: whatever a model says is text.
function el(tag, attributes = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...inside);
  return made;
}

class Page {
  constructor() {
    this.panel = document.querySelector("aside");
    this.search = document.querySelector("input");
    this.readColors();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.readColors(); this.panes.forEach((pane) => pane.draw()); });
    const hosts = DATA.models.map(() => el("section", { className: "pane" }));
    document.getElementById("panes").append(...hosts);
    this.panes = DATA.models.map((model, m) => new Pane(model, hosts[m], this));
    this.search.oninput = () => this.find(this.search.value);
    this.search.onkeydown = (e) => { if (e.key === "Enter") this.panel.querySelector(".list button")?.click(); };
    document.getElementById("fit").onclick = () => this.panes.forEach((pane) => { pane.fit(); pane.draw(); });
    document.onkeydown = (e) => { if (e.key === "/" && document.activeElement !== this.search) { e.preventDefault(); this.search.focus(); } };
    this.overview();
  }
  readColors() {
    const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(name).trim();
    this.colors = { bg: read("--rw-bg"), ink: read("--rw-ink"), dim: read("--rw-dim"), line: read("--rw-line"), box: read("--rw-box"), same: read("--rw-same"), group: read("--group") };
    for (const [family] of [...FAMILIES, ["other"]]) this.colors[family] = read(`--${family}`);
    for (const [status, name] of [["finding", "out"], ["removed", "out"], ["added", "in"], ["edited", "ed"], ["rewritten", "ed"]]) { this.colors[status] = read(`--rw-${name}`); this.colors[`${status}Bg`] = read(`--rw-${name}-bg`); }
  }
  overview() {
    this.panel.replaceChildren();
    DATA.models.forEach(({ about }) => this.panel.append(el("h2", {}, "model"), this.table(about)));
    this.panes.forEach((pane, p) => this.notes(pane, p));
    this.panel.append(el("h2", {}, "keys"), this.table([["/", "search"], ["arrows, + \u2212, f", "move, zoom, fit"], ["double click, Enter", "fold or unfold a module"], ["Esc", "back to this page"]]));
    const used = new Set(DATA.models.flatMap((model) => model.graphs.flatMap((graph) => graph.nodes.map((node) => familyOf(node[0])))));
    const legend = FAMILIES.filter(([family]) => used.has(family)).map(([family, words]) => el("span", { className: "tag", style: `color:var(--${family});margin:0 4px 4px 0` }, words));
    if (legend.length) this.panel.append(el("h2", {}, "operators"), el("div", {}, ...legend));
  }
  notes(pane, p) {
    const found = [];
    pane.model.graphs.forEach((graph, g) => graph.nodes.forEach((node, n) => node[6].forEach(([status, rule, text]) => found.push({ g, n, status, rule, text, node }))));
    if (!found.length) return;
    const name = DATA.models.length > 1 ? `, ${pane.model.about[0][1]}` : "";
    this.panel.append(el("h2", {}, `${found.length} marked nodes${name}`));
    const items = found.slice(0, HITS).map(({ g, n, status, rule, text, node }) =>
      this.jump(pane, g, n, el("span", { className: `tag ${status}` }, rule || status), ` ${node[0]} `, el("span", { className: "mono dim" }, node[1]), text && !rule ? el("div", { className: "mono" }, text) : "", text && rule ? el("div", {}, text) : ""));
    this.panel.append(el("ul", { className: "list" }, ...items));
    if (found.length > HITS) this.panel.append(el("p", { className: "dim" }, `and ${found.length - HITS} more; search for their rule`));
  }
  jump(pane, g, n, ...inside) { return el("li", {}, el("button", { type: "button", onclick: () => this.follow(pane, g, n) }, ...inside)); }
  follow(pane, g, n) {
    pane.go(g, n);
    const name = pane.model.graphs[g].nodes[n][1], path = pane.model.graphs[g].path;
    for (const other of this.panes) {
      if (other === pane || !name) continue;
      const place = other.model.graphs.findIndex((graph) => graph.path === path);
      const same = place < 0 ? -1 : other.model.graphs[place].nodes.findIndex((node) => node[1] === name);
      if (same >= 0) other.go(place, same).then(() => this.tell(pane, pane.boxes[pane.selected] || null));
    }
  }
  find(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return this.overview();
    const items = [];
    let count = 0;
    for (const pane of this.panes)
      pane.model.graphs.forEach((graph, g) => graph.nodes.forEach((node, n) => {
        const tensors = [...node[2], ...node[3]].map((t) => graph.tensors[t] || "");
        if (![node[0], node[1], ...tensors, ...node[6].map((note) => note[1])].some((word) => word.toLowerCase().includes(wanted))) return;
        if (++count <= HITS) items.push(this.jump(pane, g, n, el("b", {}, node[0]), " ", el("span", { className: "mono dim" }, node[1])));
      }));
    this.panel.replaceChildren(el("h2", {}, `${count.toLocaleString()} nodes`), el("ul", { className: "list" }, ...items));
  }
  table(rows) { return el("dl", {}, ...rows.flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)])); }
  tell(pane, box) {
    if (!box) return this.overview();
    const { graph } = pane;
    this.panel.replaceChildren(el("h3", {}, box.title));
    if (box.sort === "port") return this.panel.append(this.table([["tensor", graph.tensors[box.tensor]], ["type", graph.types[box.tensor] || "not declared"]]));
    if (box.sort === "group") {
      const items = box.nodes.slice(0, HITS).map((n) => this.jump(pane, pane.model.graphs.indexOf(graph), n, el("b", {}, graph.nodes[n][0]), " ", el("span", { className: "mono dim" }, graph.nodes[n][1])));
      return this.panel.append(el("p", { className: "mono" }, box.key), el("button", { type: "button", onclick: () => pane.toggle(pane.boxes.indexOf(box)) }, "unfold"), el("h2", {}, `${box.nodes.length} nodes`), el("ul", { className: "list" }, ...items));
    }
    const [, name, inputs, outputs, attributes, , notes] = graph.nodes[box.node];
    this.panel.append(el("p", { className: "mono" }, name));
    for (const [status, rule, text] of notes) this.panel.append(el("p", {}, el("span", { className: `tag ${status}` }, rule || status), ` ${text}`));
    const plain = attributes.filter(([, , same]) => !same), usual = attributes.filter(([, , same]) => same);
    if (plain.length) this.panel.append(el("h2", {}, "attributes"), this.table(plain.map(([key, value]) => [key, el("code", {}, value)])));
    if (usual.length) this.panel.append(el("h2", {}, "attributes at their default"), this.table(usual.map(([key, value]) => [key, el("code", {}, value)])));
    this.ports(pane, "inputs", inputs, (t) => (pane.visible.producer.has(t) ? [pane.visible.producer.get(t)] : []));
    this.ports(pane, "outputs", outputs, (t) => pane.visible.readers.get(t) || []);
  }
  ports(pane, caption, tensors, ends) {
    const { graph } = pane, g = pane.model.graphs.indexOf(graph);
    if (!tensors.length) return;
    this.panel.append(el("h2", {}, caption));
    tensors.forEach((t, i) => {
      if (t < 0) return this.panel.append(el("div", { className: "dim" }, `${i}: left out`));
      const kind = graph.weights[t] ? `weight ${graph.weights[t]}` : graph.types[t] || "";
      this.panel.append(el("div", { className: "mono" }, `${i}: ${graph.tensors[t]}`), el("div", { className: "mono dim" }, kind));
      this.panel.append(el("ul", { className: "list" }, ...ends(t).slice(0, 20).map((n) => this.jump(pane, g, n, el("b", {}, graph.nodes[n][0]), " ", el("span", { className: "mono dim" }, graph.nodes[n][1])))));
    });
  }
}

window.page = new Page();
