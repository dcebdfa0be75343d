// Tables are sorted by a click on a head; plots show the values under the pointer, and a click on a
// key of a legend hides its curve. The page is whole without it.
"use strict";

const SECONDS = { µs: 1e-6, ms: 1e-3, s: 1 };

// The number that a cell begins with, a time in seconds; null where it begins with none.
function numberOf(text) {
  const found = /^(?:x )?(-?[\d,]+(?:\.\d+)?)(?: (µs|ms|s)\b)?/.exec(text);
  return found && Number(found[1].replaceAll(",", "")) * (SECONDS[found[2]] ?? 1);
}

// The order of a column's cells: numbers, then words, then what has no value, which stays last.
function order(texts, descending) {
  const cells = texts.map((text, at) => ({ text, at, number: numberOf(text) }));
  const kind = one => (["", "–"].includes(one.text) ? 2 : one.number === null ? 1 : 0);
  const sign = descending ? -1 : 1;
  cells.sort((a, b) =>
    kind(a) - kind(b) ||
    sign * (kind(a) === 0 ? a.number - b.number : a.text.localeCompare(b.text)) ||
    a.at - b.at);
  return cells.map(one => one.at);
}

// The points of a path that has only lines.
function pointsOf(path) {
  return [...path.matchAll(/[ML] (\S+) (\S+)/g)].map(one => [Number(one[1]), Number(one[2])]);
}

// What an axis has at a place. `first` and `last` are the places of its ends, `low` and `high` their values.
function valueAt(place, { scale, first, last, low, high }) {
  const share = (place - first) / (last - first);
  return scale === "log" ? low * (high / low) ** share : low + (high - low) * share;
}

// A value with the label of its axis, such as "memory: 45.1 MB".
function told(axis, value) {
  const [, label, unit] = /^(.*?)(?: \[(.*)\])?$/.exec(axis.label);
  const shown = axis.places?.[Math.round(value)] ?? value.toLocaleString("en", { maximumSignificantDigits: 4 });
  return `${label || "value"}: ${shown}${unit ? ` ${unit}` : ""}`;
}

// The point of the curves shown that is nearest to a place, no farther than `most`.
function nearest(curves, [x, y], most) {
  let found = null;
  for (const curve of curves) {
    for (const point of curve.hidden ? [] : curve.points) {
      const far = Math.hypot(point[0] - x, point[1] - y);
      if (far <= most) { found = { curve, point }; most = far; }
    }
  }
  return found;
}

function onUse(element, act) {
  element.tabIndex = 0;
  element.style.cursor = "pointer";
  element.addEventListener("click", act);
  element.addEventListener("keydown", event => { if (event.key === "Enter") act(); });
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], rows = [...body.rows];
  heads.forEach((head, column) => onUse(head, () => {
    const next = { ascending: "descending", descending: "" }[head.ariaSort] ?? "ascending";
    for (const one of heads) { one.ariaSort = one === head && next ? next : null; }
    const texts = rows.map(row => row.cells[column].textContent.trim());
    const places = next ? order(texts, next === "descending") : rows.keys();
    for (const at of places) { body.append(rows[at]); }
  }));
}

function makeInteractive(figure) {
  const svg = figure.querySelector("svg"), { x, y, names } = JSON.parse(svg.dataset.plot), curves = [];
  const parts = kind => [...svg.querySelectorAll(`[id*="-${kind}-"]`)].map(element => {
    const [, number] = new RegExp(`-${kind}-(\\d+)`).exec(element.id);
    return { element, number: Number(number) };
  });
  for (const one of parts("curve")) {
    const paths = [...one.element.querySelectorAll(":scope > path")];
    curves.push({ ...one, points: paths.flatMap(path => pointsOf(path.getAttribute("d"))), hidden: false });
  }
  for (const one of parts("band")) { curves.push({ ...one, points: [], hidden: false }); }
  for (const { element, number } of [...parts("key"), ...parts("name")]) {
    onUse(element, () => {
      for (const curve of curves.filter(one => one.number === number)) {
        curve.hidden = !curve.hidden;
        curve.element.style.display = curve.hidden ? "none" : "";
      }
      const hidden = curves.some(one => one.number === number && one.hidden);
      for (const one of [...parts("key"), ...parts("name")]) {
        if (one.number === number) { one.element.style.opacity = hidden ? 0.35 : 1; }
      }
    });
  }
  const tip = document.createElement("div");
  const dot = document.createElementNS(svg.namespaceURI, "circle");
  tip.className = "tip";
  dot.setAttribute("r", 3);
  const hide = () => { tip.remove(); dot.remove(); };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const found = nearest(curves, [place.x, place.y], 20);
    if (!found) { hide(); return; }
    const [across, down] = found.point;
    dot.setAttribute("cx", across);
    dot.setAttribute("cy", down);
    svg.append(dot);
    tip.replaceChildren(...[names[found.curve.number], told(x, valueAt(across, x)), told(y, valueAt(down, y))]
      .map(line => Object.assign(document.createElement("div"), { textContent: line })));
    const box = figure.getBoundingClientRect(), left = event.clientX - box.left;
    tip.style.top = `${event.clientY - box.top + 12}px`;
    tip.style.left = left < box.width / 2 ? `${left + 12}px` : "";
    tip.style.right = left < box.width / 2 ? "" : `${box.width - left + 12}px`;
    figure.append(tip);
  });
}

if (typeof document === "object") {
  for (const table of document.querySelectorAll("table")) {
    if (table.tHead && table.tBodies[0].rows.length > 1) { makeSortable(table); }
  }
  for (const svg of document.querySelectorAll("figure svg[data-plot]")) {
    makeInteractive(svg.closest("figure"));
  }
} else {
  module.exports = { order, pointsOf, valueAt, told, nearest, makeSortable, makeInteractive };
}
