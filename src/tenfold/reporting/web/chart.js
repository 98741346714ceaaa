"use strict";
// What both charts share: elements, scales, ticks, numbers as text, and the box that says what a point is.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const MANY = { "time:": "Time of a call", "relative:": "Time over the original's best" };  // axes that come once a batch, length and path
const MARGIN = { top: 14, right: 18, bottom: 44, left: 58 };

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "circle", "title"].includes(name);
  const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// 1234 -> 1.23k. `unit` is behind the number, with its prefix: 1.2 GFLOP.
function short(value, unit = "") {
  const size = Math.abs(value);
  const [scale, prefix] = size >= 1e12 ? [1e12, "T"] : size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e4 ? [1e3, "k"] : [1, ""];
  const scaled = value / scale;
  const digits = scaled === 0 ? 0 : Math.min(4, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(scaled)))));
  const text = (prefix === "" && Number.isInteger(value) ? String(value) : scaled.toFixed(digits)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  const space = unit && unit !== "%" ? " " : "";
  return `${text}${space && prefix ? " " : ""}${prefix}${prefix ? "" : space}${unit}`;
}

// Pixels for values in [low, high], widened a little; `log` only where all are positive.
function scale(values, from, to, log) {
  let low = Math.min(...values), high = Math.max(...values);
  const straight = log ? Math.log10 : (v) => v;
  if (low === high) [low, high] = low === 0 ? [-1, 1] : log ? [low / 2, high * 2] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
  const pad = (straight(high) - straight(low)) * 0.07;
  const a = straight(low) - pad, b = straight(high) + pad;
  const place = (v) => from + ((straight(v) - a) / (b - a)) * (to - from);
  place.ticks = log ? logTicks(10 ** a, 10 ** b) : ticks(a, b);
  return place;
}

function ticks(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  for (const marks of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]]) {
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) for (const m of marks) found.push(Number((m * 10 ** e).toPrecision(6)));
    const inside = found.filter((v) => v >= low && v <= high);
    if (inside.length >= 3) return inside.length > 9 ? inside.filter((_, k) => k % 2 === 0) : inside;
  }
  return ticks(low, high).filter((v) => v > 0);
}

// Grid, ticks and titles; the titles are on the axes so that print shows what the controls chose.
function frame(svg, width, height, x, y, titles) {
  const bottom = height - MARGIN.bottom, right = width - MARGIN.right;
  const crowded = (right - MARGIN.left) / x.ticks.length < 46;
  x.ticks.forEach((v, k) => {
    svg.append(element("line", { class: "grid", x1: x(v), x2: x(v), y1: MARGIN.top, y2: bottom }));
    if (!crowded || k % 2 === 0) svg.append(element("text", { x: x(v), y: bottom + 17, "text-anchor": "middle" }, short(v, titles.unitX)));
  });
  for (const v of y.ticks) {
    svg.append(element("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(v), y2: y(v) }));
    svg.append(element("text", { x: MARGIN.left - 7, y: y(v) + 4, "text-anchor": "end" }, short(v, titles.unitY)));
  }
  svg.append(element("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }));
  svg.append(line(titles.x, width, { x: (MARGIN.left + right) / 2, y: height - 6, "text-anchor": "middle" }));
  svg.append(line(titles.y, width, { x: 0, y: 11, class: "name" }));
}

// A line of text, smaller where it would be wider than the chart.
function line(text, width, attributes) {
  const size = Math.min(12.5, (0.96 * width) / (0.56 * text.length));
  return element("text", { ...attributes, style: `font-size: ${size.toFixed(1)}px` }, text);
}

// A chart draws itself again whenever its width changes.
function whenSized(figure, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.round(figure.clientWidth);
    if (width && width !== last) draw((last = width));
  }).observe(figure);
}

function showTip(figure, tip, left, top, title, rows) {
  const list = element("dl");
  for (const [name, value] of rows) list.append(element("dt", {}, name), element("dd", {}, value));
  tip.replaceChildren(element("strong", {}, title), list);
  tip.hidden = false;
  const width = figure.clientWidth, size = tip.getBoundingClientRect();
  const x = left + 14 + size.width > width ? left - 14 - size.width : left + 14;
  tip.style.left = `${Math.max(0, Math.min(x, width - size.width))}px`;
  tip.style.top = `${Math.max(0, top - size.height / 2)}px`;
}

function select(label, choices, changed) {
  const node = element("select", { "aria-label": label });
  const groups = {};
  for (const choice of choices) {
    const kind = MANY[choice.key.match(/^\w+:/)?.[0]];
    const group = kind ? (groups[kind] ??= node.appendChild(element("optgroup", { label: kind }))) : node;
    group.append(element("option", { value: choice.key }, choice.label));
  }
  node.addEventListener("change", changed);
  return { node, label: element("label", {}, label, node) };
}

function tick(label, checked, changed) {
  const node = element("input", { type: "checkbox" });
  node.checked = checked;
  node.addEventListener("change", changed);
  return { node, label: element("label", { class: "tick" }, node, label) };
}
