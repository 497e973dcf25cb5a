// The page's behaviour: graphs drawn on a canvas, search, steps from mark to mark, and the panel next to the graph.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const ORDER = { finding: 0, removed: 1, added: 1, edited: 1, rewritten: 2 }; // of marks
const HITS = 200, READABLE = 0.6, CLOSE = 0.85; // listed nodes; scales from which texts can be read, and to look at one node

const ruler = document.createElement("canvas").getContext("2d");
const measure = (text, font) => { ruler.font = font; return ruler.measureText(text).width; };

const worker = (() => {
  const text = document.getElementById("layout").textContent + "\nonmessage=(e)=>postMessage([e.data[0],layoutGraph(e.data[1])]);";
  const made = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  const waiting = new Map();
  let next = 0;
  made.onmessage = ({ data: [number, result] }) => { waiting.get(number)(result); waiting.delete(number); };
  return (input) => new Promise((resolve) => { waiting.set(next, resolve); made.postMessage([next++, input]); });
})();

class Pane {
  constructor(model, host, page) {
    host.innerHTML = '<div class="bar"><span></span><select aria-label="graph"></select><button type="button"></button></div><canvas tabindex="0" role="img"></canvas><div class="wait" role="status">laying out</div>';
    const [bar, canvas, wait] = host.children, [caption, choice, fold] = bar.children, views = model.graphs.map(() => null);
    Object.assign(this, { model, page, canvas, wait, choice, fold, views, scale: 1, x: 0, y: 0, selected: -1, turn: 0 });
    caption.textContent = model.about[0][1];
    model.graphs.forEach((graph, g) => choice.add(new Option(`${graph.path} (${graph.nodes.length})`, g)));
    choice.onchange = () => this.show(Number(choice.value));
    fold.onclick = () => { this.visible.open.size ? this.visible.open.clear() : this.visible.unfold(Infinity); this.layout(() => this.start()); };
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    this.listen();
  }
  get graph() { return this.visible.graph; }
  of(g) { return (this.views[g] ||= new Visible(this.model.graphs[g], measure)); }
  show(g, n = -1) { // a graph as it is folded, with one of its nodes visible
    this.choice.value = g;
    this.visible = this.of(g);
    this.selected = -1;
    if (n >= 0) this.visible.reveal(n);
    return this.layout(() => (n < 0 ? this.start() : this.center(this.visible.at.get(n))));
  }
  async layout(settle) { // places the boxes, then looks at them
    const turn = ++this.turn;
    this.wait.hidden = false;
    const { boxes, edges } = this.visible.build();
    const laid = await worker({
      widths: Float32Array.from(boxes, (box) => box.width), heights: Float32Array.from(boxes, (box) => box.height),
      sources: Int32Array.from(edges, (edge) => edge.source), targets: Int32Array.from(edges, (edge) => edge.target),
    });
    if (turn !== this.turn) return false; // a later layout comes
    Object.assign(this, { boxes, edges, laid });
    this.layerBoxes = laid.top.length ? Array.from(laid.top, () => []) : [];
    boxes.forEach((box, b) => { box.x = laid.x[b]; box.y = laid.y[b]; this.layerBoxes[this.layerAt(box.y + box.height / 2)].push(b); });
    [this.left, this.right] = [-1, 1].map((side) => side * boxes.reduce((most, box) => Math.max(most, side * box.x + box.width / 2), -Infinity));
    this.segments = Array.from(laid.top, () => []);
    laid.lines.forEach(([, points], line) => { for (let k = 0; k + 3 < points.length; k += 2) this.segments[this.layerAt(Math.min(points[k + 1], points[k + 3]))].push(line, k); });
    this.fold.textContent = this.visible.inside.size ? (this.visible.open.size ? "fold modules" : "unfold modules") : "";
    this.fold.hidden = !this.visible.inside.size;
    this.canvas.setAttribute("aria-label", `Graph ${this.graph.path} of ${this.graph.nodes.length} nodes; the search field lists them`);
    this.wait.hidden = true;
    if (settle) this.settle(settle);
    this.draw();
    document.documentElement.dataset.ready = String(Number(document.documentElement.dataset.ready || 0) + 1);
    return true;
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
    if (this.boxes && !this.moved) this.again();
    this.draw();
  }
  settle(look) { Object.assign(this, { again: look, moved: false }); look(); this.draw(); } // also when the window changes, until someone moves the graph
  fit() { // all of it
    const { canvas, boxes, laid } = this;
    if (!boxes.length || !canvas.clientWidth) return;
    const { left, right } = this, height = laid.bottom[laid.bottom.length - 1];
    this.scale = Math.min(1, canvas.clientWidth / (right - left + 40), canvas.clientHeight / (height + 40));
    this.x = canvas.clientWidth / 2 - ((left + right) / 2) * this.scale;
    this.y = Math.max(20 * this.scale, (canvas.clientHeight - height * this.scale) / 2);
  }
  start() { // all of it, or its beginning if all of it would be too small to read
    this.fit();
    if (this.scale >= READABLE || !this.boxes.length) return;
    const { left, right, canvas: { clientWidth: width } } = this;
    const first = width / 2 - this.boxes[0].x * CLOSE, centered = (width - (left + right) * CLOSE) / 2;
    const x = (right - left) * CLOSE < width ? centered : Math.max(Math.min(first, 20 - left * CLOSE), width - 20 - right * CLOSE);
    Object.assign(this, { scale: CLOSE, x, y: 20 });
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
    for (let l = from; l <= to; l++)
      for (const b of this.layerBoxes[l]) {
        const box = this.boxes[b];
        if (box.x + box.width / 2 < left || box.x - box.width / 2 > right) continue;
        this.paintBox(context, box, b === this.selected);
      }
    if (scale >= READABLE) this.paintStubs(context, from, to);
  }
  paintLines(context, from, to, left, right) {
    const c = this.page.colors, { laid } = this, curved = this.scale > 0.2;
    context.lineWidth = Math.max(1, 0.6 / this.scale); context.strokeStyle = c.line; context.beginPath();
    for (let l = from; l <= to; l++) {
      const list = this.segments[l];
      for (let i = 0; i < list.length; i += 2) {
        const [, points] = laid.lines[list[i]], k = list[i + 1];
        const x1 = points[k], y1 = points[k + 1], x2 = points[k + 2], y2 = points[k + 3];
        if (Math.max(x1, x2) < left || Math.min(x1, x2) > right) continue;
        context.moveTo(x1, y1);
        if (curved && x1 !== x2) context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2); else context.lineTo(x2, y2);
        if (k + 4 === points.length) { context.moveTo(x2 - 3.5, y2 - 6); context.lineTo(x2, y2); context.lineTo(x2 + 3.5, y2 - 6); }
      }
    }
    context.stroke();
    if (this.selected >= 0) this.paintChosen(context);
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
  paintBox(context, box, chosen) {
    const c = this.page.colors, left = box.x - box.width / 2, ink = box.status ? c[box.status] : box.sort === "node" ? c[box.family] : c.line;
    context.fillStyle = box.status ? c[`${box.status}Bg`] : box.sort === "group" ? c.group : box.sort === "port" ? c.bg : c.box;
    context.strokeStyle = chosen ? c.same : ink; context.lineWidth = chosen ? 3 : box.status ? 2 : 1.2;
    context.beginPath();
    if (this.scale > 0.25) context.roundRect(left, box.y, box.width, box.height, box.sort === "port" ? box.height / 2 : 6); else context.rect(left, box.y, box.width, box.height);
    context.fill(); context.stroke();
    if (this.scale <= 0.32) return;
    if (box.sort === "group") context.strokeRect(left + 3, box.y + 3, box.width - 6, box.height - 6);
    context.textAlign = "left";
    box.lines.forEach((line, i) => {
      context.font = i ? MONO : TITLE;
      context.fillStyle = i === 1 && box.name ? c.dim : i || !(box.status || box.sort === "node") ? c.ink : ink;
      context.fillText(line, left + PADDING, box.y + 18 + LINE * i);
    });
    if (box.label && this.scale >= READABLE) this.note(context, box.label, box.x, box.y + box.height + 13, c.dim);
  }
  note(context, text, x, y, ink) { // below or above a box; lines do not run through it
    context.font = SMALL; context.textAlign = "center";
    const { width } = context.measureText(text);
    context.fillStyle = this.page.colors.bg; context.fillRect(x - width / 2 - 3, y - 9, width + 6, 12);
    context.fillStyle = ink; context.fillText(text, x, y);
  }
  paintStubs(context, from, to) { // edges over many layers: where they go, in words
    const c = this.page.colors, low = this.laid.top[from], high = this.laid.bottom[to];
    const stub = (box, other, y) => this.note(context, `\u2193 ${fitted(other.name || other.title, box.width, SMALL, measure, true)}`, box.x, y, c.same);
    for (const e of this.laid.far) {
      const source = this.boxes[this.edges[e].source], target = this.boxes[this.edges[e].target];
      if (source.y >= low && source.y <= high) stub(source, target, source.y + source.height + 26);
      if (target.y >= low && target.y <= high) stub(target, source, target.y - 6);
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
    this.scale = Math.max(this.scale, CLOSE);
    this.x = this.canvas.clientWidth / 2 - box.x * this.scale; this.y = this.canvas.clientHeight / 2 - (box.y + box.height / 2) * this.scale;
  }
  select(b) { this.selected = b; if (b >= 0) this.page.showMark(this.graph.nodes[this.boxes[b].node]); this.page.tell(this, this.boxes[b]); this.draw(); }
  async go(g, node) { // selects a node and returns its box; null if it is not drawn
    const visible = this.of(g), n = visible.stands(node);
    if (n < 0) return null;
    if ((visible !== this.visible || visible.boxKey(n) !== n || !this.wait.hidden) && !(await this.show(g, n))) return null;
    this.selected = visible.at.get(n);
    this.settle(() => this.center(visible.at.get(n)));
    return this.boxes[this.selected];
  }
  toggle(b) {
    const box = this.boxes[b];
    if (box.sort === "group") this.visible.open.add(box.key);
    else if (box.sort === "node") {
      const inner = this.visible.chains[box.node].filter((key) => this.visible.open.has(key)).pop();
      if (inner === undefined) return;
      for (const key of [...this.visible.open]) if (key === inner || key.startsWith(`${inner}/`)) this.visible.open.delete(key);
    } else return;
    const anchor = box.sort === "group" ? box.nodes[0] : box.node, { scale } = this, left = this.x + box.x * scale, top = this.y + box.y * scale;
    this.selected = -1;
    this.layout(() => { const now = this.boxes[this.visible.at.get(this.visible.boxKey(anchor))]; this.x = left - now.x * scale; this.y = top - now.y * scale; });
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
      else if (e.key === "f" || e.key === "0") this.settle(() => this.fit());
      else if (e.key === "Enter" && this.selected >= 0) this.toggle(this.selected);
      else if (e.key === "Escape") this.select(-1);
      else return;
      e.preventDefault();
    };
  }
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
    this.marks = this.panes.flatMap((pane, p) => pane.model.graphs.flatMap((graph, g) => graph.nodes.flatMap((node, n) => {
      const notes = node[6].filter(([status]) => !p || status !== "edited"); // an edited node is in both models
      return notes.length ? [{ pane, g, n, node, notes, rank: ORDER[worst(notes)] }] : [];
    }))).sort((a, b) => a.rank - b.rank);
    this.strip = document.getElementById("mark");
    this.search.oninput = () => this.find(this.search.value);
    this.search.onkeydown = (e) => { if (e.key === "Enter") this.panel.querySelector(".list button")?.click(); };
    document.getElementById("fit").onclick = () => this.panes.forEach((pane) => pane.settle(() => pane.fit()));
    document.onkeydown = (e) => {
      if (document.activeElement === this.search || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "/") { e.preventDefault(); this.search.focus(); }
      else if (e.key === "n" || e.key === "p") this.step(e.key === "n" ? 1 : -1);
    };
    this.overview();
    this.begin();
  }
  async begin() { // at the first finding or difference
    const [first] = this.marks;
    if (!first || first.rank === ORDER.rewritten) return this.panes.forEach((pane) => pane.show(0));
    this.showMark(first.node);
    await this.goto(first);
    this.panes.forEach((pane) => pane.visible || pane.show(0));
  }
  readColors() {
    const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(name).trim();
    this.colors = { bg: read("--rw-bg"), ink: read("--rw-ink"), dim: read("--rw-dim"), line: read("--rw-line"), box: read("--rw-box"), same: read("--rw-same"), group: read("--group") };
    for (const [family] of [...FAMILIES, ["other"]]) this.colors[family] = read(`--${family}`);
    for (const [status, name] of [["finding", "out"], ["removed", "out"], ["added", "in"], ["edited", "ed"], ["rewritten", "ed"]]) { this.colors[status] = read(`--rw-${name}`); this.colors[`${status}Bg`] = read(`--rw-${name}-bg`); }
  }
  overview() {
    this.panel.replaceChildren();
    const ends = (graph, sort) => graph[`${sort}s`].slice(0, 20).map((t) => [`${sort} ${graph.tensors[t]}`, graph.types[t] || "no type"]);
    const models = DATA.models.map(({ about, graphs: [main] }) => new Map([...about, ...ends(main, "input"), ...ends(main, "output")]));
    this.notes();
    if (DATA.differences.length) this.panel.append(el("h2", {}, "other differences"), el("ul", { className: "list" }, ...DATA.differences.slice(0, HITS).map((text) => el("li", { className: "mono lines" }, text))));
    const rows = [...new Set(models.flatMap((model) => [...model.keys()]))].map((key) => [key, ...models.map((model) => model.get(key) || "\u2013")]);
    this.panel.append(el("h2", {}, models.length > 1 ? "models" : "model"), this.table(rows));
    this.panel.append(el("h2", {}, "keys"), this.table([["/", "search"], ["n, p", "next or previous mark"], ["arrows, + \u2212, f", "move, zoom, fit"], ["double click, Enter", "fold or unfold a module"], ["Esc", "back to this page"]]));
    const used = new Set(DATA.models.flatMap((model) => model.graphs.flatMap((graph) => graph.nodes.map((node) => familyOf(node[0])))));
    const legend = FAMILIES.filter(([family]) => used.has(family)).map(([family, words]) => el("span", { className: "tag", style: `color:var(--${family});margin:0 4px 4px 0` }, words));
    if (legend.length) this.panel.append(el("h2", {}, "operators"), el("div", {}, ...legend));
  }
  notes() { // the marked nodes, by what is said of them
    const groups = new Map();
    for (const mark of this.marks)
      for (const [status, rule, text] of mark.notes) {
        const key = `${status} ${rule}`, group = groups.get(key) || { status, rule, text: rule && text, marks: [] };
        groups.set(key, group).get(key).marks.push(mark);
      }
    const tags = [...groups.values()].map(({ status, rule, marks }) => el("span", { className: `tag ${status}` }, `${marks.length.toLocaleString()} ${rule || status}`));
    if (tags.length || DATA.models.length > 1) this.panel.append(el("h2", {}, DATA.models.length > 1 ? "different nodes" : "marked nodes"), el("p", { className: "tags" }, ...(tags.length ? tags : ["no node differs"])));
    for (const { status, rule, text, marks } of groups.values()) {
      this.panel.append(el("p", {}, el("span", { className: `tag ${status}` }, rule || status), ` ${text}`), el("ul", { className: "list" }, ...marks.slice(0, HITS).map(({ pane, g, n }) => this.jump(pane, g, n))));
      if (marks.length > HITS) this.panel.append(el("p", { className: "dim" }, `and ${(marks.length - HITS).toLocaleString()} more; press n for the next`));
    }
  }
  jump(pane, g, n) {
    const [op, name] = pane.model.graphs[g].nodes[n];
    return el("li", {}, el("button", { type: "button", onclick: () => this.follow(pane, g, n) }, el("b", {}, op), " ", el("span", { className: "mono dim" }, name)));
  }
  async follow(pane, g, n) {
    this.showMark(pane.model.graphs[g].nodes[n]);
    const box = await this.goto({ pane, g, n });
    pane.canvas.scrollIntoView({ block: "nearest" });
    if (box) this.tell(pane, box);
  }
  async goto({ pane, g, n }) { // in the other model to the same node, or to the nearest one that it has
    const { path, nodes } = pane.model.graphs[g];
    for (const other of this.panes) {
      const place = other.model.graphs.findIndex((graph) => graph.path === path), theirs = new Map();
      if (other === pane || place < 0) continue;
      other.model.graphs[place].nodes.forEach(([, name], m) => theirs.set(name, m));
      const near = pane.of(g).around(n).find((m) => theirs.has(nodes[m][1]));
      if (near !== undefined) await other.go(place, theirs.get(nodes[near][1]));
    }
    return pane.go(g, n);
  }
  step(by) {
    const count = this.marks.length, mark = this.marks[(this.marks.indexOf(this.mark) + by + count) % count];
    if (mark) this.follow(mark.pane, mark.g, mark.n);
  }
  showMark(node) { // what is said of a node, and the node before and after each rule
    const mark = this.marks.find((one) => one.node === node);
    if (!mark || this.mark === mark) return;
    this.mark = mark;
    const button = (words, label, onclick) => el("button", { type: "button", ariaLabel: label, onclick }, words);
    Object.assign(this.strip, { hidden: false, scrollTop: 0 }).replaceChildren(
      el("div", { className: "bar" }, button("\u2039", "previous mark", () => this.step(-1)), el("span", {}, `${this.marks.indexOf(mark) + 1} of ${this.marks.length.toLocaleString()}`), button("\u203a", "next mark", () => this.step(1)), el("b", {}, mark.node[0]), el("span", { className: "mono" }, mark.node[1])),
      ...mark.notes.map(([status, rule, text, picture]) => el("div", { className: "said" }, el("p", {}, el("span", { className: `tag ${status}` }, rule || status), ` ${text}`), el("div", { innerHTML: picture || "" }))),
    );
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
        if (++count <= HITS) items.push(this.jump(pane, g, n));
      }));
    this.panel.replaceChildren(el("h2", {}, `${count.toLocaleString()} nodes`), el("ul", { className: "list" }, ...items));
  }
  table(rows) { // of one or two models
    return el("dl", { className: rows.some((row) => row.length > 2) ? "two" : "" }, ...rows.flatMap(([key, ...values]) => [el("dt", {}, key), ...values.map((value) => el("dd", { className: values.some((other) => other !== value) ? "edited" : "" }, value))]));
  }
  tell(pane, box) {
    if (!box) return this.overview();
    const { graph } = pane;
    this.panel.replaceChildren(el("button", { type: "button", className: "back", onclick: () => pane.select(-1) }, "\u2039 overview"), el("h3", {}, box.title));
    if (box.sort === "port") return this.panel.append(this.table([["tensor", graph.tensors[box.tensor]], ["type", graph.types[box.tensor] || "not declared"]]));
    if (box.sort === "group") {
      const items = box.nodes.slice(0, HITS).map((n) => this.jump(pane, pane.model.graphs.indexOf(graph), n));
      return this.panel.append(el("p", { className: "mono" }, box.key), el("p", {}, pane.visible.cost(box.nodes).join(", ")), el("button", { type: "button", onclick: () => pane.toggle(pane.boxes.indexOf(box)) }, "unfold"), el("h2", {}, `${box.nodes.length} nodes`), el("ul", { className: "list" }, ...items));
    }
    const [, name, inputs, outputs, attributes, , notes] = graph.nodes[box.node];
    this.panel.append(el("p", { className: "mono" }, name), el("p", {}, pane.visible.cost([box.node]).join(", ")));
    for (const [status, rule, text] of notes) this.panel.append(el("p", {}, el("span", { className: `tag ${status}` }, rule || status), ` ${text}`));
    const plain = attributes.filter(([, , same]) => !same), usual = attributes.filter(([, , same]) => same);
    if (plain.length) this.panel.append(el("h2", {}, "attributes"), this.table(plain.map(([key, value]) => [key, el("code", {}, value)])));
    if (usual.length) this.panel.append(el("h2", {}, "attributes at their default"), this.table(usual.map(([key, value]) => [key, el("code", {}, value)])));
    this.ports(pane, "inputs", inputs, (t) => (pane.visible.producer.has(t) ? [pane.visible.producer.get(t)] : []));
    this.ports(pane, "outputs", outputs, (t) => pane.visible.readers.get(t) || []);
  }
  ports(pane, caption, tensors, ends) {
    const { graph } = pane, g = pane.model.graphs.indexOf(graph);
    if (tensors.length) this.panel.append(el("h2", {}, caption));
    tensors.forEach((t, i) => {
      if (t < 0) return this.panel.append(el("div", { className: "dim" }, `${i}: left out`));
      const kind = graph.weights[t] ? `weight ${graph.weights[t]}` : graph.types[t] || "";
      this.panel.append(el("div", { className: "mono" }, `${i}: ${graph.tensors[t]}`), el("div", { className: "mono dim" }, kind));
      this.panel.append(el("ul", { className: "list" }, ...ends(t).slice(0, 20).map((n) => this.jump(pane, g, n))));
    });
  }
}

window.page = new Page();
