"use strict";
// One line a round of teaching. The pointer finds the nearest measurement; with the keyboard, arrows walk along and between lines.

const DASHES = ["", "7 4", "2 4", "9 3 2 3"];

function curves() {
  const figure = document.getElementById("curves");
  if (!figure || !data.curves.length) return;
  const svg = element("svg", { tabindex: 0, role: "img" });
  const tip = element("div", { class: "tip" }), said = element("p", { class: "soft note", "aria-live": "polite" });
  tip.hidden = true;
  figure.prepend(svg);
  figure.append(tip);
  const redraw = () => draw(figure.clientWidth);
  const across = select("Against", [{ key: "tokens", label: "tokens seen" }, { key: "step", label: "steps" }], redraw);
  const measure = select("Measured", data.measures, redraw);
  const log = tick("Logarithmic", false, redraw);
  figure.before(element("div", { class: "controls" }, measure.label, across.label, log.label));
  figure.after(lineKey(), said);
  let lines = [], at = null;

  function draw(width) {
    hide();
    const [kx, ky] = [across.node.value, measure.node.value];
    lines = data.curves
      .map((curve, k) => ({ curve, k, dots: curve.rows.filter((r) => Number.isFinite(r[kx]) && Number.isFinite(r[ky])).map((r) => ({ x: r[kx], y: r[ky] })) }))
      .filter((line) => line.dots.length);
    const height = Math.round(Math.max(240, Math.min(400, width * 0.5)));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-label", `${ky} against ${kx}: ${lines.map(summary).join("; ")}. Arrow keys walk along the lines.`);
    svg.replaceChildren();
    if (!lines.length) return void svg.append(element("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no round measured this"));
    const dots = lines.flatMap((line) => line.dots);
    const x = scale(dots.map((d) => d.x), MARGIN.left, width - MARGIN.right, false);
    const y = scale(dots.map((d) => d.y), height - MARGIN.bottom, MARGIN.top + 12, log.node.checked && dots.every((d) => d.y > 0));
    x.ticks = x.ticks.filter((v) => v >= 0);
    const better = data.measures[measure.node.selectedIndex].better;
    frame(svg, width, height, x, y, { x: across.node.selectedOptions[0].textContent, y: `${ky} (${better} is better)`, unitX: "", unitY: "" });
    for (const line of lines) {
      line.dots.forEach((d) => ((d.left = x(d.x)), (d.top = y(d.y))));
      svg.append(element("path", { class: "curve", style: stroke(line.k), d: line.dots.map((d, k) => `${k ? "L" : "M"}${d.left} ${d.top}`).join("") }));
      svg.append(...line.dots.map((d) => element("circle", { class: "dot", r: 3.2, cx: d.left, cy: d.top, style: `fill: var(--c${line.k % 6})` })));
    }
    svg.append(element("circle", { class: "cursor", r: 7, fill: "none", stroke: "var(--ink)", "stroke-width": 2, visibility: "hidden" }));
  }

  const summary = (line) => `${line.curve.name} from ${short(line.dots[0].y)} to ${short(line.dots.at(-1).y)}`;

  function hide() {
    tip.hidden = true;
    at = null;
    svg.querySelector(".cursor")?.setAttribute("visibility", "hidden");
  }

  function show(k, j) {
    at = [k, j];
    const dot = lines[k].dots[j], cursor = svg.querySelector(".cursor"), ratio = figure.clientWidth / svg.viewBox.baseVal.width;
    cursor.setAttribute("cx", dot.left);
    cursor.setAttribute("cy", dot.top);
    cursor.setAttribute("visibility", "visible");
    const rows = [[across.node.value, short(dot.x)], [measure.node.value, dot.y.toPrecision(4)]];
    showTip(figure, tip, dot.left * ratio, dot.top * ratio, lines[k].curve.name, rows);
    return `${lines[k].curve.name}: ${rows.map((row) => row.join(" ")).join(", ")}`;
  }

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), ratio = svg.viewBox.baseVal.width / box.width;
    const [px, py] = [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
    let best = [Infinity, 0, 0];
    lines.forEach((line, k) => line.dots.forEach((d, j) => {
      const distance = Math.hypot(d.left - px, d.top - py);
      if (distance < best[0]) best = [distance, k, j];
    }));
    if (best[0] < 60) show(best[1], best[2]);
    else hide();
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", () => { hide(); said.textContent = ""; });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === "Escape") hide();
    if (!move || !lines.length) return;
    event.preventDefault();
    const k = at ? (at[0] + move[0] + lines.length) % lines.length : 0;
    const j = at ? Math.max(0, Math.min(lines[k].dots.length - 1, at[1] + move[1])) : 0;
    said.textContent = show(k, j);
  });
  whenSized(figure, draw);
}

const stroke = (k) => `stroke: var(--c${k % 6}); stroke-dasharray: ${DASHES[Math.floor(k / 6) % 4] || "none"}`;

function lineKey() {
  const items = data.curves.map((curve, k) => {
    const line = element("path", { d: "M-11 0H11", style: `${stroke(k)}; fill: none` });
    return element("li", {}, element("svg", { viewBox: "-12 -9 24 18", "aria-hidden": true }, line), curve.name);
  });
  return element("ul", { class: "key", "aria-label": "Lines" }, ...items);
}

curves();
