"use strict";
// Cost across, quality up: one mark a run, a shape and a colour a form, a dashed line through what nothing beats.

const SHAPES = {
  low_rank: "M-6-6H6V6H-6Z",
  tensor_train: "M0-7.5L7 5.5H-7Z",
  tucker: "M0-7.5L7.5 0L0 7.5L-7.5 0Z",
  mixed: "M6.5 0A6.5 6.5 0 1 1-6.5 0A6.5 6.5 0 1 1 6.5 0Z",
  layer_shared: "M-2.5-7H2.5V-2.5H7V2.5H2.5V7H-2.5V2.5H-7V-2.5H-2.5Z",
  dense: "M0 7.5L7-5.5H-7Z",
  original: "M0-8.5L2.2-2.8L8.2-2.6L3.5 1.1L5.2 7L0 3.5L-5.2 7L-3.5 1.1L-8.2-2.6L-2.2-2.8Z",
};

// The points that no other beats: none is as cheap and better, or cheaper and as good.
function front(points, better) {
  const sign = better === "lower" ? -1 : 1;
  let best = -Infinity;
  return [...points]
    .sort((a, b) => a.x - b.x || sign * (b.y - a.y))
    .filter((p) => (sign * p.y > best ? ((best = sign * p.y), true) : false));
}

const picked = (axes, box) => axes.find((axis) => axis.key === box.node.value);

function pareto() {
  const figure = document.getElementById("pareto");
  if (!figure || !data.points.length || !data.axes.y.length) return;
  const svg = element("svg", { role: "group", "aria-label": "Cost against quality, one mark a run" });
  const tip = element("div", { class: "tip" }), note = element("p", { class: "soft note", "aria-live": "polite" });
  tip.hidden = true;
  figure.prepend(svg);
  figure.append(tip);
  const redraw = () => draw(figure.clientWidth);
  const across = select("Cost", data.axes.x, redraw), up = select("Quality", data.axes.y, redraw);
  const log = tick("Logarithmic cost", true, redraw);
  const forms = [...new Set(data.points.map((p) => p.form))];
  const boxes = forms.map((form) => [form, tick(form.replace("_", " "), true, redraw)]);
  const fields = element("fieldset", {}, element("legend", {}, "Forms"), ...boxes.map(([, box]) => box.label));
  boxes.forEach(([form, box]) => (box.node.value = form));
  figure.before(element("div", { class: "controls" }, across.label, up.label, log.label, fields));
  figure.after(key(forms), note);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());

  function hide() {
    tip.hidden = true;
    document.querySelectorAll("tr.lit").forEach((row) => row.classList.remove("lit"));
  }

  function draw(width) {
    hide();
    const shown = new Set(boxes.filter(([, box]) => box.node.checked).map(([form]) => form));
    const [ax, ay] = [picked(data.axes.x, across), picked(data.axes.y, up)];
    const chosen = data.points.filter((p) => shown.has(p.form));
    const known = (p) => Number.isFinite(p.values[ax.key]) && Number.isFinite(p.values[ay.key]);
    const points = chosen.filter(known).map((p) => ({ ...p, x: p.values[ax.key], y: p.values[ay.key] }));
    const left = chosen.filter((p) => !known(p)).map((p) => p.run);
    for (const row of document.querySelectorAll("tr[data-form]")) row.classList.toggle("off", !shown.has(row.dataset.form));
    note.textContent = left.length ? `Not in this chart, as one of its two numbers was not measured: ${left.join(", ")}.` : "";
    const height = Math.round(Math.max(250, Math.min(430, width * 0.55)));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    if (!points.length) return void svg.append(element("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no run has both numbers"));
    const x = scale(points.map((p) => p.x), MARGIN.left, width - MARGIN.right, log.node.checked && points.every((p) => p.x > 0));
    const y = scale(points.map((p) => p.y), height - MARGIN.bottom, MARGIN.top + 12, false);
    frame(svg, width, height, x, y, { x: ax.label, y: `${ay.label} (${ay.better} is better)`, unitX: ax.unit, unitY: ay.unit });
    const best = front(points, ay.better);
    svg.append(element("path", { class: "front", d: best.map((p, k) => `${k ? "L" : "M"}${x(p.x)} ${y(p.y)}`).join("") }));
    const marks = points.map((p) => mark(p, x(p.x), y(p.y), [[ax.label, short(p.x, ax.unit)], [ay.label, short(p.y, ay.unit)]], best.some((b) => b.id === p.id)));
    svg.append(...labels(points, x, y, width), ...marks);
  }

  function mark(p, left, top, numbers, best) {
    const rows = [...numbers, ...p.details];
    const name = [p.run, ...rows.map(([k, v]) => `${k} ${v}`), best ? "on the front" : "not on the front"].join(", ");
    const node = element(
      "g",
      { class: "point", tabindex: 0, role: "img", "aria-label": name, "data-run": p.run, "data-front": best, transform: `translate(${left} ${top})` },
      element("circle", { r: 13 }),
      element("path", { d: SHAPES[p.form] || SHAPES.dense, style: `fill: var(--form-${p.form}, var(--c5))` }),
    );
    const show = () => {
      hide();
      const ratio = figure.clientWidth / svg.viewBox.baseVal.width;
      showTip(figure, tip, left * ratio, top * ratio, p.run, rows);
      document.getElementById(`point-${p.id}`)?.classList.add("lit");
    };
    for (const event of ["pointerenter", "focus"]) node.addEventListener(event, show);
    for (const event of ["pointerleave", "blur"]) node.addEventListener(event, hide);
    return node;
  }

  whenSized(figure, draw);
}

// Names beside the marks, where one of four places is free; the others are said on hover.
function labels(points, x, y, width) {
  const taken = points.map((p) => [x(p.x) - 8, y(p.y) - 8, x(p.x) + 8, y(p.y) + 8]);
  const free = (b) => b[0] >= MARGIN.left && b[2] <= width && b[1] > 14 && !taken.some((t) => b[0] < t[2] && b[2] > t[0] && b[1] < t[3] && b[3] > t[1]);
  const found = [];
  for (const p of points) {
    const text = p.run.length > 26 ? `${p.run.slice(0, 25)}…` : p.run;
    const [w, cx, cy] = [text.length * 6.7, x(p.x), y(p.y)];
    const places = [["start", cx + 12, cy + 4, 0], ["end", cx - 12, cy + 4, -w], ["middle", cx, cy - 13, -w / 2], ["middle", cx, cy + 22, -w / 2]];
    for (const [anchor, left, base, shift] of places) {
      const box = [left + shift, base - 11, left + shift + w, base + 3];
      if (!free(box)) continue;
      taken.push(box);
      found.push(element("text", { class: "name", x: left, y: base, "text-anchor": anchor, "aria-hidden": true }, text));
      break;
    }
  }
  return found;
}

function key(forms) {
  const items = forms.map((form) => {
    const path = element("path", { d: SHAPES[form] || SHAPES.dense, style: `fill: var(--form-${form}, var(--c5))` });
    return element("li", {}, element("svg", { viewBox: "-12 -9 24 18", "aria-hidden": true }, path), form.replace("_", " "));
  });
  return element("ul", { class: "key", "aria-label": "Marks by form" }, ...items);
}

pareto();
